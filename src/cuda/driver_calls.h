// What calls of the CUDA driver have in common here: which of them there must be, what their errors
// are as a Status, and a context that is current for a while.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string_view>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// kUnsupported names the first function that collectives on memory of a GPU need and the driver
// lacks.
Status check_driver(const CudaFunctions& cuda);

// kOk for kCudaSuccess; otherwise kCuda: "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE".
Status cuda_status(const CudaFunctions& cuda, int result, std::string_view call);

inline constexpr unsigned kCudaWithoutTiming = 2;      // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kCudaPortableAndMapped = 3;  // CU_MEMHOSTALLOC_PORTABLE | _DEVICEMAP

inline CudaFunctions::Address cuda_address(const void* pointer) {
  return static_cast<CudaFunctions::Address>(reinterpret_cast<uintptr_t>(pointer));
}

// What this thread asks of the driver meanwhile spoils no capture of a stream that another thread
// does. Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaFunctions& cuda) : cuda_(cuda) { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() {
    if (cuda_.exchange_capture_mode != nullptr) (void)cuda_.exchange_capture_mode(&mode_);
  }

  const CudaFunctions& cuda_;
  int mode_ = kCudaCaptureRelaxed;
};

// The ordinal of the device in whose memory an address is. kCuda: in none's.
Result<int> ordinal_of(const CudaFunctions& cuda, const void* address);

// The context that a device has for all of the process.
class PrimaryContext {
 public:
  explicit PrimaryContext(const CudaFunctions& cuda) : cuda_(cuda) {}
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext() {
    if (context_ != nullptr) (void)cuda_.release_context(device_);
  }
  // Once.
  Status retain(int ordinal);
  CudaFunctions::Handle get() const { return context_; }

 private:
  const CudaFunctions& cuda_;
  CudaFunctions::Device device_ = 0;
  CudaFunctions::Handle context_ = nullptr;
};

// Makes a context this thread's until its end, and then that which was before.
class CurrentContext {
 public:
  CurrentContext(const CudaFunctions& cuda, CudaFunctions::Handle context)
      : cuda_(cuda), relaxed_(cuda), pushed_(cuda.push_context(context) == kCudaSuccess) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    CudaFunctions::Handle popped = nullptr;
    if (pushed_) (void)cuda_.pop_context(&popped);
  }

 private:
  const CudaFunctions& cuda_;
  RelaxedCapture relaxed_;
  bool pushed_;
};

}  // namespace banyan
