// The kernels as nvcc has compiled them, for several generations of GPUs at once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace banyan {

struct CudaImage {
  const void* fatbin;  // null: this build has none
  // The compute capabilities that there is code for, as "8.0, 9.0". Later ones run the code of the
  // lowest, which the driver translates.
  std::string_view capabilities;
};

// The one of this build; it lasts as long as the program.
CudaImage cuda_image();

}  // namespace banyan
