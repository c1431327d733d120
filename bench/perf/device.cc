// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/device.h"

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/cuda_driver.h"

namespace banyan::perf {
namespace {

constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL

const std::optional<CudaFunctions>& driver() {
  static const std::optional<CudaFunctions> found = open_cuda_driver();
  return found;
}

Status status_of_driver(int result, std::string_view call) {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  if (driver()->error_name != nullptr) (void)driver()->error_name(result, &name);
  return {Code::kCuda, name != nullptr ? fmt::format("{}: {}", call, name)
                                       : fmt::format("{}: {}", call, result)};
}

Status use_device(int number) {
  int devices = 0;
  CudaFunctions::Device device = 0;
  CudaFunctions::Handle context = nullptr;
  BANYAN_TRY(status_of_driver(driver()->init(0), "cuInit"));
  BANYAN_TRY(status_of_driver(driver()->device_count(&devices), "cuDeviceGetCount"));
  if (devices == 0) return {Code::kUnsupported, "the CUDA driver has no device"};
  BANYAN_TRY(status_of_driver(driver()->device(&device, number % devices), "cuDeviceGet"));
  BANYAN_TRY(
      status_of_driver(driver()->retain_context(&context, device), "cuDevicePrimaryCtxRetain"));
  return status_of_driver(driver()->set_context(context), "cuCtxSetCurrent");
}

CudaFunctions::Address address_on_device(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

}  // namespace

Status find_driver() {
  if (driver().has_value()) return {};
  return {Code::kUnsupported, "this machine has no CUDA driver (libcuda.so.1)"};
}

Result<std::byte*> allocate_on_device(int number, size_t bytes, bool managed) {
  BANYAN_TRY(find_driver());
  BANYAN_TRY(use_device(number));
  CudaFunctions::Address memory = 0;
  BANYAN_TRY(managed ? status_of_driver(driver()->allocate_managed(&memory, bytes, kGlobal),
                                        "cuMemAllocManaged")
                     : status_of_driver(driver()->allocate(&memory, bytes), "cuMemAlloc"));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
  return reinterpret_cast<std::byte*>(memory);
}

void free_on_device(std::byte* memory) {
  (void)driver()->free(address_on_device(memory));
}

Status copy_to_device(std::byte* to, const std::byte* from, size_t bytes) {
  BANYAN_TRY(status_of_driver(driver()->to_device(address_on_device(to), from, bytes, nullptr),
                              "cuMemcpyHtoDAsync"));
  return status_of_driver(driver()->synchronize_stream(nullptr), "cuStreamSynchronize");
}

Status copy_from_device(std::byte* to, const std::byte* from, size_t bytes) {
  BANYAN_TRY(status_of_driver(driver()->to_host(to, address_on_device(from), bytes, nullptr),
                              "cuMemcpyDtoHAsync"));
  return status_of_driver(driver()->synchronize_stream(nullptr), "cuStreamSynchronize");
}

}  // namespace banyan::perf
