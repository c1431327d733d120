// Memory of a GPU that is had once and lent again, since an allocation may wait for all that the
// device does (CUDA Driver API, cuMemAlloc).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// Everything requires the context to be current.
class DevicePool {
 public:
  explicit DevicePool(const CudaFunctions& cuda) : cuda_(cuda) {}
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  // Frees what was given back and what was not.
  ~DevicePool();

  // So many bytes, or more; the smallest that is there. kCuda: the driver has none left.
  Result<std::byte*> take(size_t bytes);
  // False: it is not of this pool.
  bool give_back(const std::byte* memory);

 private:
  struct Lent {
    std::byte* memory;
    size_t bytes;
    bool free;
  };

  const CudaFunctions& cuda_;
  std::vector<Lent> all_;
};

}  // namespace banyan
