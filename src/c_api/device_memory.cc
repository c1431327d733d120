// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/device_memory.h"

#include <dlfcn.h>

#include <cstdint>

namespace banyan {
namespace internal {

constinit std::atomic<PointerAttribute> pointer_attribute{nullptr};

// The driver knows nothing of an address that is none of its: an error, as without a context.
bool is_in_device_memory(PointerAttribute ask, const void* address) {
  constexpr int kMemoryType = 2, kIsManaged = 8;  // CUpointer_attribute
  constexpr unsigned kDevice = 2;                 // CUmemorytype
  const auto pointer = reinterpret_cast<uintptr_t>(address);
  unsigned type = 0, managed = 0;
  return ask(&type, kMemoryType, pointer) == 0 && type == kDevice &&
         !(ask(&managed, kIsManaged, pointer) == 0 && managed != 0);
}

}  // namespace internal

// What is loaded is never unloaded: the handle is kept.
void look_for_cuda_driver() {
  if (internal::pointer_attribute.load(std::memory_order_relaxed) != nullptr) return;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (driver == nullptr) return;
  void* symbol = dlsym(driver, "cuPointerGetAttribute");
  internal::pointer_attribute.store(reinterpret_cast<internal::PointerAttribute>(symbol));
}

}  // namespace banyan
