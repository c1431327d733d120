// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/device_memory.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <mutex>
#include <string_view>

#include "src/cuda/driver_calls.h"
#include "src/cuda/machine_gpus.h"
#include "src/cuda/pointer_place.h"

namespace banyan {
namespace internal {

constinit std::atomic<const CudaFunctions*> cuda_of_process{nullptr};
constinit std::atomic<bool> may_meet_devices{false};

}  // namespace internal

bool is_in_device_memory(const void* address) {
  const CudaFunctions* cuda = cuda_of_process();
  return cuda != nullptr && pointer_place(*cuda, address).on_device;
}

Result<bool> must_be_staged(std::string_view name, const void* address) {
  if (!is_in_device_memory(address)) return false;
  const Status driver = check_driver(*cuda_of_process());
  if (driver.ok()) return true;
  return Status(driver.code(), fmt::format("{} is {}, in the memory of a GPU: {}", name, address,
                                           driver.message()));
}

Status check_streams() {
  look_for_cuda_driver();
  const CudaFunctions* cuda = cuda_of_process();
  if (cuda != nullptr) return check_driver(*cuda);
  return {Code::kUnsupported, "on_stream is set, and this process has loaded no CUDA driver"};
}

namespace {

struct Search {
  unsigned long long loaded_before;
  unsigned long long loaded = 0;
  const char* path = nullptr;  // lives as long as the library
};

// The loader calls this for each library that is loaded, under its lock, until it returns 1. The
// count of libraries that were ever loaded says whether there is anything new.
int visit(dl_phdr_info* library, size_t /*bytes*/, void* into) {
  auto& search = *static_cast<Search*>(into);
  search.loaded = library->dlpi_adds;
  if (search.loaded == search.loaded_before) return 1;
  const std::string_view path = library->dlpi_name;
  if (!path.substr(path.rfind('/') + 1).starts_with("libcuda.so.1")) return 0;
  search.path = library->dlpi_name;
  return 1;
}

std::atomic<unsigned long long> libraries_seen{0};

}  // namespace

void expect_devices(const std::string& root) {
  if (may_have_gpu(root)) internal::may_meet_devices.store(true, std::memory_order_relaxed);
}

// What is loaded is never unloaded: the handle is kept.
void look_for_cuda_driver() {
  if (knows_devices()) return;
  static std::once_flag of_machine;
  std::call_once(of_machine, [] { expect_devices("/"); });
  Search search{libraries_seen.load(std::memory_order_relaxed)};
  dl_iterate_phdr(visit, &search);
  // Where there is one, nobody may take the search for done before all see it.
  if (search.path == nullptr) return libraries_seen.store(search.loaded, std::memory_order_relaxed);
  void* driver = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (driver == nullptr) return;
  static const CudaFunctions found = cuda_functions(driver);
  internal::cuda_of_process.store(&found, std::memory_order_release);
  internal::may_meet_devices.store(true, std::memory_order_relaxed);
}

}  // namespace banyan
