// What a reducer knows of the tensors that it was given.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "algorithms/problem.h"
#include "banyan/types.h"

namespace banyan {

struct Tensor {
  uint64_t id = 0;   // stable over restarts
  std::string name;  // which rules match
  uint64_t count = 0;
  int dimensions = 1;
  DataType type = DataType::kFloat32;
  Compression compression{};  // by which its gradients travel; exact: as they are
};

}  // namespace banyan
