// This build has kernels: nvcc was found.
// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/image.h"

extern "C" const unsigned char banyan_cuda_fatbin[];  // image.S

namespace banyan {

CudaImage cuda_image() {
  return {static_cast<const unsigned char*>(banyan_cuda_fatbin), BANYAN_CUDA_CAPABILITIES};
}

}  // namespace banyan
