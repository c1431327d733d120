// How ranks tell each other what they need to connect: an allgather of byte strings.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/base/clock.h"
#include "src/bootstrap/address.h"
#include "src/bootstrap/authentication.h"

namespace banyan {

inline constexpr size_t kExchangeMost = 64 * 1024;  // bytes that one rank may give at once

// What ends a wait from outside: a failure that comes another way than over the exchange.
struct Watch {
  int descriptor = -1;             // readable when status() may have changed
  std::function<Status()> status;  // empty: nothing is watched
  Status look() const { return status ? status() : Status(); }
};

// All ranks take part, in the same order of calls. A failure is final: later calls return it again.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // result[r] is what rank r gave. kTimeout names the ranks that have not come. kPeerLost: one
  // left.
  virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                               TimePoint deadline) = 0;
  // A key that all ranks and nobody else have, where there is one from before.
  virtual std::optional<Key> key() const { return std::nullopt; }
  // The address of this host by which this rank reached the others, where it did so by one.
  virtual std::optional<Address> met_by() const { return std::nullopt; }
  // Other users of this host may know that key: only ranks of one user may take part.
  virtual bool of_one_user() const { return false; }
  // Gives descriptors of which one becomes readable when a rank fails between two calls; failure()
  // then says so. None: such news does not come by itself.
  virtual std::vector<int> failure_descriptors() const { return {}; }
  virtual Status failure() { return {}; }
  // This rank cannot go on, and all others learn that at once, in a call or as news. False: they
  // learn it in the next round only, by what this rank gives.
  virtual bool give_up(const Status& /*why*/) { return false; }
};

// Passes contributions that are longer than a round takes, in as many rounds as the longest needs.
// kCorrupt names a rank that announces more than `most` or does not send what it announced.
Result<std::vector<Bytes>> allgather_long(Exchange& exchange, std::span<const std::byte> mine,
                                          size_t most, TimePoint deadline);

// What has come in that time; ok: nothing.
Status news_of(Exchange& exchange, std::chrono::milliseconds patience);
// A rank that can no longer be reached may have left because it has heard that another one failed.
// Then we hear that in a moment, too, and it is what is to be told.
Status or_earlier_news(Exchange& exchange, Status status);
Status or_earlier_news(const Watch& watch, Status status);
// Waits until the descriptor has one of the events. False: the deadline has passed. News is an
// error.
Result<bool> wait_or_news(Exchange& exchange, int descriptor, short events, TimePoint deadline);
Result<bool> wait_or_news(const Watch& watch, int descriptor, short events, TimePoint deadline);
// Why `rank` gave up, as the others tell it.
Status said_by(int rank, const Status& said);

// This exchange is the caller's function, which moves the same number of bytes for each rank. It
// returns 0 for success; anything else becomes kRemote with the number in the message.
using FixedAllgather = std::function<int(const void* send, void* recv, size_t bytes)>;
// Makes the first round: who takes part, and whether all can. `own` is why this rank cannot.
//
//   kMismatch, on all   a rank is not at its place or says another size
//   kRemote             names a rank that cannot
Status call_roll(int rank, int size, const FixedAllgather& allgather, const Status& own);
std::unique_ptr<Exchange> exchange_over(int rank, int size, FixedAllgather allgather);

}  // namespace banyan
