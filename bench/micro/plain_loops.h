// The kernels are compared with these: the loops that anyone would write, as the compiler
// vectorises them for an instruction set. A NaN is whatever the processor makes of it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "compression/kernels.h"

namespace banyan {

struct PlainLoops {
  CombineKernel reduce[kDataTypeCount][kReduceOpCount];  // null: none
};

// Lists the loops in the order of available_kernels(), and no more of them. There may be less: BF16
// is nothing that compilers make of a loop.
std::span<const PlainLoops* const> available_plain_loops();

}  // namespace banyan
