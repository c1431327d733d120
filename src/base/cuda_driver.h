// The CUDA driver is a table of functions here, so that it can be absent and tests can put another
// in its place. Prototypes are ours: cuda.h is not needed to build (CUDA Driver API reference, 12;
// all of them have been in the library under these names since 11.4, the driver R470).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <optional>

namespace banyan {

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaCapabilityMajor = 75;  // CUdevice_attribute
inline constexpr int kCudaCapabilityMinor = 76;

struct CudaUuid {  // CUuuid
  unsigned char bytes[16];
};

// Each returns CUresult; any may be null.
struct CudaFunctions {
  using Device = int;
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(Device*, int) = nullptr;
  int (*bus_id)(char*, int, Device) = nullptr;
  int (*name)(char*, int, Device) = nullptr;
  int (*memory)(size_t*, Device) = nullptr;
  int (*attribute)(int*, int, Device) = nullptr;
  int (*uuid)(CudaUuid*, Device) = nullptr;            // of the whole GPU
  int (*partition_uuid)(CudaUuid*, Device) = nullptr;  // with MIG of the instance, else the same
  int (*pointer_attribute)(void*, int, unsigned long long) = nullptr;
};

// Those of a library that dlopen() has given.
CudaFunctions cuda_functions(void* library);
// Those of this machine's, which stays loaded; none where there is none.
std::optional<CudaFunctions> open_cuda_driver();

}  // namespace banyan
