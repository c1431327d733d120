// A caller's arguments are checked here and become a Call. This is local: nothing is sent, nothing
// is written.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "algorithms/choice/compression.h"
#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/c_api/handles.h"

namespace banyan {

// Fails with one of
//
//   kInvalidArgument  names the parameter, its value and what would be right
//   kUnsupported      this build lacks it (CUDA streams, compression)
Result<Call> check_call(const OpenCommunicator& communicator, const banyan_call_t& call);

Result<DataType> check_type(int datatype);
// timeout_s or init_timeout_s: not negative, not NaN.
Status check_timeout(double seconds, std::string_view name);
// What a call or a communicator accepts. kUnsupported: a bound, or a codec of later versions.
Result<Compression> read_compression(const banyan_compression_t* compression);

}  // namespace banyan
