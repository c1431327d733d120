// What the kernels of the module are called: a verb and a type, as in kernels.inc.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "banyan/types.h"

namespace banyan {

enum class CudaScaling { kMultiply, kDivide };

std::string cuda_reduce_name(DataType type, ReduceOp op);
std::string cuda_decode_reduce_name(DataType type, ReduceOp op);
std::string cuda_decode_name(DataType type);
std::string cuda_encode_name(DataType type, CudaScaling by);

}  // namespace banyan
