// SPDX-License-Identifier: Apache-2.0

#include "src/base/cuda_driver.h"

#include <dlfcn.h>

namespace banyan {

namespace {

template <typename Function>
void find_in(void* library, const char* name, Function** function) {
  // POSIX has dlsym() give functions as void*.
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

CudaFunctions cuda_functions(void* library) {
  CudaFunctions f;
  find_in(library, "cuInit", &f.init);
  find_in(library, "cuDeviceGetCount", &f.device_count);
  find_in(library, "cuDeviceGet", &f.device);
  find_in(library, "cuDeviceGetPCIBusId", &f.bus_id);
  find_in(library, "cuDeviceGetName", &f.name);
  find_in(library, "cuDeviceTotalMem_v2", &f.memory);
  find_in(library, "cuDeviceGetAttribute", &f.attribute);
  find_in(library, "cuDeviceGetUuid", &f.uuid);
  find_in(library, "cuDeviceGetUuid_v2", &f.partition_uuid);
  find_in(library, "cuPointerGetAttribute", &f.pointer_attribute);
  return f;
}

std::optional<CudaFunctions> open_cuda_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return std::nullopt;
  return cuda_functions(library);
}

}  // namespace banyan
