// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/moved/gpus.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/support/test_driver.h"

namespace banyan::test {
namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

void must(int result, const char* call) {
  if (result == kCudaSuccess) return;
  fmt::print(stderr, "the tests' own {} returns {}\n", call, result);
  std::abort();
}

CudaFunctions driver() {
  void* library = load_test_driver();
  if (library == nullptr) {
    fmt::print(stderr, "no CUDA driver: {}\n", dlerror());
    std::abort();
  }
  return cuda_functions(library);
}

CudaFunctions::Address address_of(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

#ifdef PRELOADED
// All communicators of the program know of GPUs then, as those of a program that uses them do.
[[gnu::constructor]] void load_at_once() {
  (void)load_test_driver();
}
#endif

}  // namespace

Gpus& Gpus::of_process() {
  static auto* const gpus = new Gpus;  // what is moved may be so until the process ends
  return *gpus;
}

Gpus::Gpus() : cuda_(driver()) {
  int devices = 0;
  must(cuda_.init(0), "cuInit");
  must(cuda_.device_count(&devices), "cuDeviceGetCount");
  gpus_.resize(static_cast<size_t>(devices));
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    CudaFunctions::Device device = 0;
    Gpu& gpu = gpus_[static_cast<size_t>(ordinal)];
    must(cuda_.device(&device, ordinal), "cuDeviceGet");
    must(cuda_.retain_context(&gpu.context, device), "cuDevicePrimaryCtxRetain");
    in_context(ordinal, [&] { must(cuda_.create_stream(&gpu.stream, kNonBlocking), "stream"); });
  }
}

template <typename Body>
void Gpus::in_context(int gpu, const Body& body) {
  must(cuda_.push_context(gpus_[static_cast<size_t>(gpu)].context), "cuCtxPushCurrent");
  body();
  Handle popped = nullptr;
  must(cuda_.pop_context(&popped), "cuCtxPopCurrent");
}

std::byte* Gpus::allocate(int gpu, size_t bytes) {
  CudaFunctions::Address memory = 0;
  in_context(gpu, [&] { must(cuda_.allocate(&memory, bytes), "cuMemAlloc"); });
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
  return reinterpret_cast<std::byte*>(memory);
}

void Gpus::free(int gpu, std::byte* memory) {
  in_context(gpu, [&] { must(cuda_.free(address_of(memory)), "cuMemFree"); });
}

void Gpus::write(int gpu, std::byte* memory, const void* host, size_t bytes) {
  Handle stream = gpus_[static_cast<size_t>(gpu)].stream;
  in_context(gpu, [&] {
    must(cuda_.to_device(address_of(memory), host, bytes, stream), "cuMemcpyHtoDAsync");
    must(cuda_.synchronize_stream(stream), "cuStreamSynchronize");
  });
}

void Gpus::read(int gpu, void* host, const std::byte* memory, size_t bytes) {
  Handle stream = gpus_[static_cast<size_t>(gpu)].stream;
  in_context(gpu, [&] {
    must(cuda_.to_host(host, address_of(memory), bytes, stream), "cuMemcpyDtoHAsync");
    must(cuda_.synchronize_stream(stream), "cuStreamSynchronize");
  });
}

}  // namespace banyan::test

// tests/ranks/ranks.cc calls it, where a program is linked with this. A driver may begin the thread
// of a stream with its first use.
extern "C" void banyan_test_begin_rank();
extern "C" void banyan_test_begin_rank() {
  banyan::test::Gpus& gpus = banyan::test::Gpus::of_process();
  for (int gpu = 0; gpu < gpus.count(); ++gpu) {
    const std::byte byte{};
    std::byte* memory = gpus.allocate(gpu, 1);
    gpus.write(gpu, memory, &byte, 1);
    gpus.free(gpu, memory);
  }
}
