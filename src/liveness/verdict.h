// The first failure of a communicator, the same for all ranks of a host: a word in shared memory
// that is set once. The same memory has what the ranks say of themselves while they wait.
//
// Every value read from the board is a peer's and is checked: an impossible code or rank is taken
// for kInternal and -1, the text is copied and cut at its size.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/engine/places.h"
#include "src/liveness/blame.h"

namespace banyan {

struct Verdict {
  Code code = Code::kOk;
  int failed_rank = -1;
  std::string text;
  // Ranks that disagree about one collective call have all begun those before it, which may still
  // end well: the calls with lower numbers than this.
  uint32_t spares_calls_before = 0;
};

// Thread-safe. Mapped by every rank of the host; owns its mapping.
class VerdictBoard {
 public:
  // A new board in a sealed memfd, for a communicator of `ranks`.
  static Result<VerdictBoard> create(int ranks, TimePoint deadline = TimePoint::max());
  // Makes the board of a rank that shares none with others.
  static Result<VerdictBoard> alone(int ranks);
  // A board that another rank made; the descriptor's size and seals are checked.
  static Result<VerdictBoard> attach(const Descriptor& memory, int ranks);

  VerdictBoard(VerdictBoard&& other) noexcept;
  VerdictBoard& operator=(VerdictBoard&& other) noexcept;
  ~VerdictBoard();

  // False: another verdict was there first.
  bool decide(const Verdict& verdict);
  bool decided() const;  // one load
  // After decided(). The text may still be on its way: it is waited for 200 ms, once, then made
  // from the rest.
  Verdict read() const;

  // Which rank this one sleeps for, -1 none; and what the others said last. For naming who holds up
  // all (blame.h).
  void set_waiting_for(int rank, int peer);
  Waiting waiting_for(int rank) const;

  // Gives the places of this rank among the others. They may outlive a move of the board, but not
  // the board.
  Places places(int rank) { return {marks(), rank}; }

  // To be passed to the other ranks of the host, then closed.
  Descriptor& memory() { return memory_; }

 private:
  struct Page;
  static size_t bytes_of_page(int ranks);
  std::span<Places::Mark> marks();
  std::atomic<uint64_t>& waiting_word(int rank) const;
  VerdictBoard(Page* page, size_t bytes, int ranks, Descriptor memory);

  Page* page_ = nullptr;
  size_t bytes_ = 0;
  int ranks_ = 0;
  mutable std::atomic<bool> textless_{false};  // who decided died before it had written the text
  Descriptor memory_;
};

// "peer lost", ... as in banyan_result_string.
std::string_view describe(Code code);

}  // namespace banyan
