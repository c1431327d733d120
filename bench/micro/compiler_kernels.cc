// The scalar kernels once more, as well as the compiler makes them for the processor that builds
// this. They are the same code, so that they give the same bits.
// SPDX-License-Identifier: Apache-2.0

#include "bench/micro/compiler_kernels.h"

#include "compression/plain.inc"

namespace banyan {

constinit const Kernels compiler_table = make_kernels("compiler");

}  // namespace banyan
