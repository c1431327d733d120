// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/driver_calls.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "src/cuda/pointer_place.h"

namespace banyan {

Status check_driver(const CudaFunctions& cuda) {
  const std::array<std::pair<bool, std::string_view>, 25> needed{{
      {cuda.pointer_attribute != nullptr, "cuPointerGetAttribute"},
      {cuda.device != nullptr, "cuDeviceGet"},
      {cuda.retain_context != nullptr, "cuDevicePrimaryCtxRetain"},
      {cuda.release_context != nullptr, "cuDevicePrimaryCtxRelease"},
      {cuda.current_context != nullptr, "cuCtxGetCurrent"},
      {cuda.push_context != nullptr, "cuCtxPushCurrent"},
      {cuda.pop_context != nullptr, "cuCtxPopCurrent"},
      {cuda.copy != nullptr, "cuMemcpyAsync"},
      {cuda.create_stream != nullptr, "cuStreamCreate"},
      {cuda.destroy_stream != nullptr, "cuStreamDestroy"},
      {cuda.synchronize_stream != nullptr, "cuStreamSynchronize"},
      {cuda.is_capturing != nullptr, "cuStreamIsCapturing"},
      {cuda.wait_event != nullptr, "cuStreamWaitEvent"},
      {cuda.create_event != nullptr, "cuEventCreate"},
      {cuda.destroy_event != nullptr, "cuEventDestroy"},
      {cuda.record_event != nullptr, "cuEventRecord"},
      {cuda.query_event != nullptr, "cuEventQuery"},
      {cuda.call_host != nullptr, "cuLaunchHostFunc"},
      {cuda.wait_value != nullptr, "cuStreamWaitValue32"},
      {cuda.allocate_host != nullptr, "cuMemHostAlloc"},
      {cuda.free_host != nullptr, "cuMemFreeHost"},
      {cuda.register_host != nullptr, "cuMemHostRegister"},
      {cuda.unregister_host != nullptr, "cuMemHostUnregister"},
      {cuda.host_device_pointer != nullptr, "cuMemHostGetDevicePointer"},
      {cuda.error_name != nullptr, "cuGetErrorName"},
  }};
  for (const auto& [there, name] : needed)
    if (!there)
      return {Code::kUnsupported,
              fmt::format("the CUDA driver of this process lacks {}, which memory of a GPU and "
                          "streams need",
                          name)};
  return {};
}

Status cuda_status(const CudaFunctions& cuda, int result, std::string_view call) {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  if (cuda.error_name == nullptr || cuda.error_name(result, &name) != kCudaSuccess) name = nullptr;
  return {Code::kCuda, name != nullptr ? fmt::format("{}: {}", call, name)
                                       : fmt::format("{}: {}", call, result)};
}

Result<int> ordinal_of(const CudaFunctions& cuda, const void* address) {
  const PointerPlace place = pointer_place(cuda, address);
  if (place.ordinal >= 0) return place.ordinal;
  BANYAN_TRY(cuda_status(cuda, place.error, "cuPointerGetAttributes"));
  return Status(Code::kCuda, fmt::format("{} is in the memory of no GPU", address));
}

Status PrimaryContext::retain(int ordinal) {
  BANYAN_TRY(cuda_status(cuda_, cuda_.device(&device_, ordinal), "cuDeviceGet"));
  return cuda_status(cuda_, cuda_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
}

}  // namespace banyan
