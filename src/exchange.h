// How ranks tell each other what they need to connect: an allgather of byte strings.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/authentication.h"
#include "src/base/bytes.h"
#include "src/base/clock.h"

namespace banyan {

inline constexpr size_t kExchangeMost = 64 * 1024;  // bytes that one rank may give at once

// Collective over all ranks, in the same order on all of them. A failure is final: later calls
// return it again.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // result[r] is what rank r gave. kTimeout names the ranks that have not come; kPeerLost: one
  // left.
  virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                               TimePoint deadline) = 0;
  // A key that all ranks and nobody else have, where there is one from before.
  virtual std::optional<Key> key() const { return std::nullopt; }
  // Becomes readable when a rank fails between two calls, and failure() then says so; -1: such news
  // does not come by itself.
  virtual int failure_descriptor() const { return -1; }
  virtual Status failure() { return {}; }
};

// Over the caller's function, which moves the same number of bytes for each rank. It returns 0 for
// success; anything else becomes kRemote with the number in the message.
using FixedAllgather = std::function<int(const void* send, void* recv, size_t bytes)>;
std::unique_ptr<Exchange> exchange_over(int rank, int size, FixedAllgather allgather);

}  // namespace banyan
