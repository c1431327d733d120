// What the kernels of the module are called: a verb and a type, as in kernels.inc, and a codec
// between them, as in codec_kernels.inc.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "banyan/types.h"

namespace banyan {

enum class CudaScaling { kMultiply, kDivide };

std::string cuda_reduce_name(DataType type, ReduceOp op);
std::string cuda_decode_reduce_name(DataType type, ReduceOp op);
std::string cuda_decode_name(DataType type);
std::string cuda_encode_name(DataType type, CudaScaling by);
// The type is float16 or bfloat16.
std::string cuda_leave_name(DataType type);
// `by` matters to sums and means.
std::string cuda_fold_name(DataType type, ReduceOp op, CudaScaling by);
// The verb is "encode", "decode", "decode_add" or "fold"; the type is that of the values.
std::string cuda_codec_name(std::string_view verb, std::string_view codec, DataType type);

}  // namespace banyan
