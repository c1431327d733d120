// What steps know of others when they run: who has entered the call, and what was done before.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

// Knows which ranks a step knows to have entered the call: its own, those known to the steps that
// it waits for, and those known to the sender of what it receives.
class Knowledge {
 public:
  Knowledge(size_t ranks, size_t steps)
      : ranks_(ranks), words_((ranks + 63) / 64), bits_(words_ * steps) {}

  void add(size_t step, int rank) {
    bits_[step * words_ + static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64);
  }
  void join(size_t step, size_t other) {
    for (size_t word = 0; word < words_; ++word)
      bits_[step * words_ + word] |= bits_[other * words_ + word];
  }
  bool has(size_t step, size_t rank) const {
    return (bits_[step * words_ + rank / 64] >> (rank % 64) & 1) != 0;
  }
  // A rank that it does not know, -1 if it knows all.
  int missing(size_t step) const {
    for (size_t word = 0; word < words_; ++word) {
      const auto known = static_cast<size_t>(std::countr_one(bits_[step * words_ + word]));
      if (known != 64 && word * 64 + known < ranks_) return static_cast<int>(word * 64 + known);
    }
    return -1;
  }

 private:
  size_t ranks_;
  size_t words_;
  std::vector<uint64_t> bits_;
};

// Finds steps of any ranks that touch the same bytes of a window, one of them writing, where the
// later one does not know that the earlier one is done.
class WindowOrder {
 public:
  explicit WindowOrder(size_t steps) : known_(steps, steps) {
    for (size_t step = 0; step < steps; ++step) known_.add(step, static_cast<int>(step));
  }
  void join(size_t step, size_t other) { known_.join(step, other); }
  // Steps come in an order in which they may run. Returns the earlier one of such a pair; -1: there
  // is none.
  int64_t touch(int window, Slice bytes, size_t step, bool write) {
    int64_t found = -1;
    for (const Touch& touch : touches_) {
      const bool meets = touch.window == window && touch.bytes.offset < bytes.end() &&
                         bytes.offset < touch.bytes.end();
      if (meets && (write || touch.write) && !known_.has(step, touch.step))
        found = static_cast<int64_t>(touch.step);
    }
    touches_.push_back({window, bytes, step, write});
    return found;
  }

 private:
  struct Touch {
    int window;
    Slice bytes;
    size_t step;
    bool write;
  };
  Knowledge known_;
  std::vector<Touch> touches_;
};

}  // namespace banyan
