// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/cuda.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/cuda_driver.h"

namespace banyan::test {

namespace {

template <typename Function>
bool find_in(void* library, const char* name, Function** function) {
  // POSIX has dlsym() give functions as void*.
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
  return *function != nullptr;
}

std::string ask_driver() {
  const auto driver = open_cuda_driver();
  if (!driver) return "there is no libcuda.so.1";
  if (driver->init == nullptr || driver->device_count == nullptr)
    return "libcuda.so.1 has no cuInit";
  if (const int said = driver->init(0); said != kCudaSuccess)
    return fmt::format("cuInit says {}, which is {}", said,
                       said == 100 ? "CUDA_ERROR_NO_DEVICE" : "an error");
  int count = 0;
  if (const int said = driver->device_count(&count); said != kCudaSuccess)
    return fmt::format("cuDeviceGetCount says {}", said);
  return count > 0 ? std::string() : "the driver counts no device";
}

void* pointer(unsigned long long address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  return reinterpret_cast<void*>(address);
}

unsigned long long address_of(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

}  // namespace

std::string why_no_gpu() {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe can be made";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string why = ask_driver();
    const bool written =
        ::write(ends[1], why.data(), why.size()) == static_cast<ssize_t>(why.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string why;
  char part[256];
  for (ssize_t got = 0; (got = ::read(ends[0], part, sizeof part)) > 0;)
    why.append(part, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0)
    return "the process that asked the driver did not end well";
  return why;
}

Gpu::Gpu() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    refused_ = "there is no libcuda.so.1";
    return;
  }
  const auto find = [&](const char* name, auto** function) {
    if (!find_in(library, name, function)) refused_ = fmt::format("libcuda.so.1 has no {}", name);
  };
  Calls& f = calls_;
  find("cuInit", &f.init);
  find("cuDeviceGet", &f.device);
  find("cuDeviceGetAttribute", &f.attribute);
  find("cuDevicePrimaryCtxRetain", &f.retain);
  find("cuCtxSetCurrent", &f.set_current);
  find("cuGetErrorName", &f.error_name);
  find("cuMemAlloc_v2", &f.alloc);
  find("cuMemFree_v2", &f.free);
  find("cuMemAllocAsync", &f.alloc_async);
  find("cuMemFreeAsync", &f.free_async);
  find("cuCtxSynchronize", &f.synchronize);
  find("cuMemGetAllocationGranularity", &f.granularity);
  find("cuMemCreate", &f.create);
  find("cuMemRelease", &f.release);
  find("cuMemAddressReserve", &f.reserve);
  find("cuMemAddressFree", &f.free_reserved);
  find("cuMemMap", &f.map);
  find("cuMemUnmap", &f.unmap);
  find("cuMemSetAccess", &f.set_access);
  find("cuIpcGetMemHandle", &f.lend);
  find("cuIpcOpenMemHandle_v2", &f.borrow);
  find("cuIpcCloseMemHandle", &f.give_back);
  find("cuMemcpyHtoD_v2", &f.to_device);
  find("cuMemcpyDtoH_v2", &f.to_host);
  find("cuMemAllocHost_v2", &f.alloc_host);
  find("cuMemFreeHost", &f.free_host);
  find("cuMemHostRegister_v2", &f.register_host);
  find("cuMemHostUnregister", &f.unregister_host);
  find("cuMemAllocManaged", &f.alloc_managed);
  if (!refused_.empty()) return;
  // The context is the process's own and stays until it ends.
  void* context = nullptr;
  (void)(ok(f.init(0), "cuInit") && ok(f.device(&device_, 0), "cuDeviceGet") &&
         ok(f.retain(&context, device_), "cuDevicePrimaryCtxRetain") &&
         ok(f.set_current(context), "cuCtxSetCurrent"));
}

bool Gpu::ok(int result, const char* call) {
  if (result == kCudaSuccess) return true;
  const char* name = nullptr;
  if (calls_.error_name(result, &name) != kCudaSuccess || name == nullptr) name = "an error";
  refused_ = fmt::format("{}: {} ({})", call, name, result);
  return false;
}

int Gpu::attribute(int number) const {
  int value = 0;
  return calls_.attribute(&value, number, device_) == kCudaSuccess ? value : 0;
}

Held Gpu::held(Address address, int (*free)(Address)) {
  return {pointer(address), [address, free] { (void)free(address); }};
}

Held Gpu::plain(size_t bytes) {
  Address address = 0;
  if (!ok(calls_.alloc(&address, bytes), "cuMemAlloc")) return {};
  return held(address, calls_.free);
}

Held Gpu::pooled(size_t bytes) {
  Address address = 0;
  if (!ok(calls_.alloc_async(&address, bytes, nullptr), "cuMemAllocAsync") ||
      !ok(calls_.synchronize(), "cuCtxSynchronize"))
    return {};
  const auto free = calls_.free_async;
  return {pointer(address), [address, free] { (void)free(address, nullptr); }};
}

Held Gpu::mapped(size_t bytes) {
  Allocation wanted;
  wanted.location.id = device_;
  size_t unit = 0;
  Address handle = 0;
  Address address = 0;
  if (!ok(calls_.granularity(&unit, &wanted, 0), "cuMemGetAllocationGranularity") || unit == 0)
    return {};
  const size_t whole = (bytes + unit - 1) / unit * unit;
  if (!ok(calls_.create(&handle, whole, &wanted, 0), "cuMemCreate") ||
      !ok(calls_.reserve(&address, whole, 0, 0, 0), "cuMemAddressReserve") ||
      !ok(calls_.map(address, whole, 0, handle, 0), "cuMemMap"))
    return {};
  const Access access{.location = wanted.location};
  (void)ok(calls_.set_access(address, whole, &access, 1), "cuMemSetAccess");
  const Calls calls = calls_;
  return {pointer(address), [address, whole, handle, calls] {
            (void)calls.unmap(address, whole);
            (void)calls.free_reserved(address, whole);
            (void)calls.release(handle);
          }};
}

IpcHandle Gpu::lend(const Held& held) {
  IpcHandle handle{};
  (void)ok(calls_.lend(&handle, address_of(held.memory())), "cuIpcGetMemHandle");
  return handle;
}

void Gpu::write(std::byte* memory, const void* from, size_t bytes) {
  (void)ok(calls_.to_device(address_of(memory), from, bytes), "cuMemcpyHtoD");
}

void Gpu::read(void* to, const std::byte* memory, size_t bytes) {
  (void)ok(calls_.to_host(to, address_of(memory), bytes), "cuMemcpyDtoH");
}

Held Gpu::borrowed(const IpcHandle& handle) {
  Address address = 0;
  constexpr unsigned kLazyPeerAccess = 1;
  if (!ok(calls_.borrow(&address, handle, kLazyPeerAccess), "cuIpcOpenMemHandle")) return {};
  return held(address, calls_.give_back);
}

Held Gpu::pinned(size_t bytes) {
  void* memory = nullptr;
  if (!ok(calls_.alloc_host(&memory, bytes), "cuMemAllocHost")) return {};
  const auto free = calls_.free_host;
  return {memory, [memory, free] { (void)free(memory); }};
}

Held Gpu::managed(size_t bytes) {
  Address address = 0;
  constexpr unsigned kForAll = 1;
  if (!ok(calls_.alloc_managed(&address, bytes, kForAll), "cuMemAllocManaged")) return {};
  return held(address, calls_.free);
}

Held Gpu::registered(void* memory, size_t bytes) {
  if (!ok(calls_.register_host(memory, bytes, 0), "cuMemHostRegister")) return {};
  const auto unregister = calls_.unregister_host;
  return {memory, [memory, unregister] { (void)unregister(memory); }};
}

}  // namespace banyan::test
