// Kernels for the stand-in of a driver where a build has none: it asks for no more than an image,
// and has the kernels themselves (host_kernels.h).
// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/image.h"

namespace banyan {

CudaImage cuda_image() {
  return {"stand-in", "all"};
}

}  // namespace banyan
