// What banyan_reducer_create() is given, checked, and compared between the ranks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/c_api/handles.h"
#include "src/reducer/bucket_run.h"
#include "src/reducer/tensor.h"

namespace banyan {

struct Registration {
  std::vector<Tensor> tensors;
  ReducerOptions options;
  std::string rules;
};

// kInvalidArgument: names the argument, its value and what would be right.
Result<Registration> check_registration(const OpenCommunicator& communicator,
                                        const banyan_tensor_t* tensors, size_t tensor_count,
                                        const banyan_reducer_config_t* given);

// All ranks have registered the same. kMismatch: they have not, and the communicator has failed;
// the text says which rank differs from rank 0, and in what.
Status agree_on(OpenCommunicator& communicator, const Registration& registration);

}  // namespace banyan
