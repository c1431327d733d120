// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/device_pool.h"

#include "src/cuda/driver_calls.h"

namespace banyan {

DevicePool::~DevicePool() {
  for (const Lent& lent : all_) (void)cuda_.free(cuda_address(lent.memory));
}

Result<std::byte*> DevicePool::take(size_t bytes) {
  Lent* best = nullptr;
  for (Lent& lent : all_)
    if (lent.free && lent.bytes >= bytes && (best == nullptr || lent.bytes < best->bytes))
      best = &lent;
  if (best != nullptr) {
    best->free = false;
    return best->memory;
  }
  CudaFunctions::Address address = 0;
  BANYAN_TRY(cuda_status(cuda_, cuda_.allocate(&address, bytes), "cuMemAlloc"));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  all_.push_back({reinterpret_cast<std::byte*>(address), bytes, false});
  return all_.back().memory;
}

bool DevicePool::give_back(const std::byte* memory) {
  for (Lent& lent : all_) {
    if (lent.memory != memory) continue;
    lent.free = true;
    return true;
  }
  return false;
}

}  // namespace banyan
