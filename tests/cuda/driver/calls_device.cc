// The driver's functions for devices and contexts, as the CUDA Driver API has them.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <cstring>

#include "tests/cuda/driver/calls.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): its functions have C
                                  // names

namespace {

bool is_device(int device) {
  return device >= 0 && device < Machine::the().devices();
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {

int cuInit(unsigned flags) {
  ENTER(cuInit);
  return flags == 0 ? kSuccess : kInvalidValue;
}

int cuDriverGetVersion(int* version) {
  ENTER(cuDriverGetVersion);
  *version = 13000;
  return kSuccess;
}

int cuGetErrorName(int error, const char** name) {
  switch (error) {
    case kSuccess: *name = "CUDA_SUCCESS"; return kSuccess;
    case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; return kSuccess;
    case kOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return kSuccess;
    case kInvalidDevice: *name = "CUDA_ERROR_INVALID_DEVICE"; return kSuccess;
    case kInvalidContext: *name = "CUDA_ERROR_INVALID_CONTEXT"; return kSuccess;
    case kInvalidHandle: *name = "CUDA_ERROR_INVALID_HANDLE"; return kSuccess;
    case kNotReady: *name = "CUDA_ERROR_NOT_READY"; return kSuccess;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; return kSuccess;
    case kNotPermitted: *name = "CUDA_ERROR_NOT_PERMITTED"; return kSuccess;
    default: *name = nullptr; return kInvalidValue;
  }
}

int cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount);
  *count = Machine::the().devices();
  return kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  *device = ordinal;
  return is_device(ordinal) ? kSuccess : kInvalidDevice;
}

int cuDeviceGetName(char* text, int bytes, int device) {
  ENTER(cuDeviceGetName);
  std::snprintf(text, static_cast<size_t>(bytes), "Stand-in GPU %d", device);
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  ENTER(cuDeviceGetPCIBusId);
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", 10 + device);
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER(cuDeviceTotalMem_v2);
  *bytes = size_t{80} << 30;
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER(cuDeviceGetAttribute);
  constexpr int kMultiprocessors = 16, kMajor = 75;
  *value = attribute == kMajor ? 9 : attribute == kMultiprocessors ? 132 : 0;
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuDeviceGetUuid(unsigned char* bytes, int device) {
  ENTER(cuDeviceGetUuid);
  std::memset(bytes, device + 1, 16);
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  return cuDeviceGetUuid(bytes, device);
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER(cuDevicePrimaryCtxRetain);
  if (!is_device(device)) return kInvalidDevice;
  *context = Machine::the().context(device);
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  return is_device(device) ? kSuccess : kInvalidDevice;
}

int cuCtxSetCurrent(void* context) {
  ENTER(cuCtxSetCurrent);
  auto& stack = Machine::current();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(static_cast<Context*>(context));
  return kSuccess;
}

int cuCtxGetCurrent(void** context) {
  ENTER(cuCtxGetCurrent);
  *context = Machine::current().empty() ? nullptr : Machine::current().back();
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  ENTER(cuCtxPushCurrent_v2);
  if (context == nullptr) return kInvalidContext;
  Machine::current().push_back(static_cast<Context*>(context));
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  ENTER_WITH_CONTEXT(cuCtxPopCurrent_v2);
  if (context != nullptr) *context = Machine::current().back();
  Machine::current().pop_back();
  return kSuccess;
}

int cuCtxGetDevice(int* device) {
  ENTER_WITH_CONTEXT(cuCtxGetDevice);
  *device = Machine::current().back()->device;
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
