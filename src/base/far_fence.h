// A fence that one thread has others pass, so that they need none of their own.
//
// Two threads each store a word and then load the other's; one of them at least must see what the
// other stored (Dekker's pattern). That takes a fence between store and load on either side, tens
// of nanoseconds each time. Where one side comes seldom, it alone can pay: the kernel has all
// running threads of the processes that take part pass a fence (membarrier(2), GLOBAL_EXPEDITED,
// some microseconds), and those that do not run passed one when they stopped.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

namespace banyan {

// This process takes part from now on. False: this kernel has no such fence, or forbids it.
bool take_part_in_far_fences();
// Has all pass a fence, this thread included. False: as above, and nothing happened.
bool fence_from_afar();

// What the frequent side stores before it loads. kNear: it passes a fence itself.
enum class Fence : uint8_t { kNear, kFar };
inline void store_before_look(std::atomic<uint64_t>& word, uint64_t value, Fence fence) {
  if (fence == Fence::kNear) {
    word.store(value, std::memory_order_seq_cst);
    return;
  }
  word.store(value, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace banyan
