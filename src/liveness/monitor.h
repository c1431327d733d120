// Watches the links to all other ranks: news of a death, farewells, verdicts.
//
// Ranks of one host share a verdict board, so the first verdict there is final. Across hosts the
// lowest rank that is still connected decides: others propose to it, and it tells everybody.
// Should it die or fall silent in the middle of telling, the next one hears everybody first, since
// one of them may have its verdict, and tells that. Frames are of one size and carry a MAC under
// the communicator's key.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/log.h"
#include "src/bootstrap/authentication.h"
#include "src/liveness/failure.h"
#include "src/liveness/links.h"

namespace banyan {

enum class LinkFrameType : uint8_t { kGoodbye = 1, kPropose = 2, kFinal = 3 };

// A frame is little-endian and has these fields, with their bytes:
//
//   type 4, code 4, failed rank 4, spared calls 4, text length 4, counter 8, text 484, MAC 32
inline constexpr size_t kFrameBytes = 28 + 484 + 32;
using FrameBytes = std::array<std::byte, kFrameBytes>;

struct LinkFrame {
  LinkFrameType type = LinkFrameType::kGoodbye;
  Verdict verdict;  // of kPropose and kFinal
};

// The key of one direction of one link.
Key link_key(const Key& key, int from, int to);
FrameBytes encode_frame(const LinkFrame& frame, const Key& key, uint64_t counter);
// Nothing: not authentic, or not what encode_frame makes for a communicator of `ranks`.
std::optional<LinkFrame> decode_frame(std::span<const std::byte, kFrameBytes> bytes, const Key& key,
                                      uint64_t counter, int ranks);

class Monitor {
 public:
  // `links` and `failure` must outlive it.
  Monitor(Links& links, Failure& failure, const Log& log);

  // Reports a failure that this rank found. Any thread may call. On one host the verdict stands
  // when this returns; on several it may still be on its way. False: something else was reported
  // before.
  bool report(const Verdict& verdict);
  // This rank aborts: as report(), but its own calls say kAborted.
  void abort();
  // So long others may take to decide: the first that should, and the one after it.
  static constexpr double kMostPatienceSeconds = 4;
  // What this rank has reported before, or else `verdict`, is the failure at once, whoever should
  // have decided, and all others are told. They may have heard of another one. Any thread.
  void decide_alone(const Verdict& verdict);
  // This rank leaves in good order: its silence is no death from now on.
  void say_goodbye();

  // Tell the thread that serves what to poll, and what to do afterwards. `ready` are the entries
  // that add_to() appended.
  void add_to(std::vector<pollfd>& descriptors) const;
  void handle(std::span<const pollfd> ready);
  // When it must be called again although nothing is ready; never: TimePoint::max().
  TimePoint patience_ends() const;
  // Whoever should have decided says nothing: the next one shall, in the end this rank itself.
  void lose_patience(TimePoint now);

 private:
  struct Peer {
    FrameBytes partial{};
    size_t received = 0;
    uint64_t frames_in = 0;
    uint64_t frames_out = 0;
    Key key_in{};
    Key key_out{};
    Descriptor process;  // readable when it ends; none: it cannot be seen, or another rank watches
    bool open = false;
    bool said_goodbye = false;
    bool proposed = false;  // it has no verdict, and asked this rank for one
    bool silent = false;    // it should have decided, and did not
  };

  void broadcast(const LinkFrame& frame);
  void send(int rank, const LinkFrame& frame);
  void receive(int rank);
  void act_on(int rank, const LinkFrame& frame);
  void lost(int rank, std::string_view how);
  int decider() const;
  void propose(const Verdict& verdict);
  void settle();
  void succeed();
  void decide(const Verdict& verdict);
  void pass_on();

  Links& links_;
  Failure& failure_;
  const Log& log_;
  bool one_host_ = true;
  std::vector<Peer> peers_;
  mutable std::mutex mutex_;         // of peers_ and of writing to the sockets
  std::optional<Verdict> proposed_;  // by this rank, until a verdict stands
  int proposed_to_ = -1;
  bool succeeds_ = false;  // a decider died or was silent
  bool passed_on_ = false;
  TimePoint patience_ends_ = TimePoint::max();
};

}  // namespace banyan
