// What a step of a schedule means in memory.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>

#include "algorithms/schedule.h"
#include "compression/kernels.h"
#include "transports/transport.h"

namespace banyan {

// The memory of one call.
class Spaces {
 public:
  Spaces() = default;
  // `left`: for a schedule that has a left_count.
  Spaces(const std::byte* input, std::byte* output, std::byte* scratch, std::byte* left = nullptr)
      : base_{const_cast<std::byte*>(input), output, scratch, left} {}

  // Gives the address of a slice; that of the input, too, which nobody writes.
  std::byte* at(Slice slice) const {
    return base_[static_cast<size_t>(slice.space)] + slice.offset;
  }

 private:
  std::array<std::byte*, kSpaceCount> base_{};
};
static_assert(static_cast<int>(Space::kInput) == 0 && static_cast<int>(Space::kScratch) == 2 &&
              static_cast<int>(Space::kLeft) == 3);

// What a schedule needs besides memory.
struct Arithmetic {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int divisor = 1;                    // of kEncode: the number of ranks for kAvg, else 1
  std::array<std::byte, 8> scalar{};  // of kDecode for kPreMulSum
};

// The wire slot that a step reads; 0: none.
inline uint32_t slot_read_by(const Step& step) {
  return step.op == Op::kDecodeAdd ? step.src2.slot : step.src.slot;
}

// Its length is known when it is planned, its memory is the host's, and it is always done.
inline bool is_plain(const Step& step) {
  return step.codec == kNoCodec && !step.src.is_slot() && !step.dst.is_slot() &&
         step.memory == MemoryKind::kHost && step.branch == Branch::kAlways;
}

// What the call of a schedule does, as its messages say; and one of them, which is a step of it.
Usage usage_of(const Schedule& schedule);
Usage usage_of(const Schedule& schedule, uint32_t step, const Usage& call);

void run_local_step(const Step& step, const Spaces& spaces, const Arithmetic& arithmetic,
                    const Kernels& kernels);

// Gives the half of a message that a step is, but for lane, cookie, usage and addresses. `envelope`
// comes without the length.
Transfer transfer_of(const Step& step, ReduceOp op, const Envelope& envelope,
                     const Kernels& kernels);
// The addresses of a transfer.
inline void place(Transfer& transfer, const Step& step, const Spaces& spaces) {
  transfer.memory = spaces.at(step.op == Op::kSend ? step.src : step.dst);
  if (transfer.combine != nullptr) transfer.local = spaces.at(step.src);
}

}  // namespace banyan
