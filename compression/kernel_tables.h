// There is one table per instruction set. Only the functions that choose among them look in here: a
// table must not be called on a machine that lacks its instructions.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "compression/kernels.h"

namespace banyan {

extern const Kernels scalar_table;
extern const Kernels avx2_table;         // AVX2 and F16C
extern const Kernels avx512_table;       // AVX-512 F, BW, VL and DQ
extern const Kernels avx512_bf16_table;  // and BF16
extern const Kernels neon_table;         // of 64-bit ARM

}  // namespace banyan
