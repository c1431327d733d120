// What the compiler's best loops are, for whoever compares the library's own kernels with them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "compression/kernels.h"

namespace banyan {

// The specification, compiled with -O3 -march=native. Only the machine that built it may call it.
extern const Kernels compiler_table;

}  // namespace banyan
