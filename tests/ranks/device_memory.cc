// SPDX-License-Identifier: Apache-2.0

#include "tests/ranks/device_memory.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdint>
#include <thread>

#include "tests/support/test_driver.h"

namespace banyan::test {
namespace {

CudaFunctions::Address address_in(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

// Ranks share the devices that there are.
RankGpu::RankGpu(Rank& rank, int others) : rank_(rank), library_(load_test_driver()) {
  if (!rank_.expect(library_ != nullptr, "no CUDA driver")) return;
  cuda_ = cuda_functions(library_);
  int devices = 0;
  CudaFunctions::Device device = 0;
  CudaFunctions::Handle context = nullptr;
  works_ = good(cuda_.init(0), "cuInit") && good(cuda_.device_count(&devices), "count") &&
           good(cuda_.device(&device, (rank.rank() + others) % devices), "cuDeviceGet") &&
           good(cuda_.retain_context(&context, device), "retain") &&
           good(cuda_.set_context(context), "cuCtxSetCurrent");
}

RankGpu::~RankGpu() {
  if (works_) (void)cuda_.set_context(nullptr);
}

bool RankGpu::good(int result, const char* what) {
  return rank_.expect(result == kCudaSuccess, fmt::format("{}: {}", what, result));
}

std::byte* RankGpu::allocate(size_t bytes) {
  CudaFunctions::Address memory = 0;
  if (!good(cuda_.allocate(&memory, bytes), "cuMemAlloc")) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
  return reinterpret_cast<std::byte*>(memory);
}

std::byte* RankGpu::copy_of(const void* host, size_t bytes) {
  std::byte* memory = allocate(bytes);
  if (memory == nullptr) return nullptr;
  good(cuda_.to_device(address_in(memory), host, bytes, nullptr), "to the device");
  synchronize(nullptr);
  return memory;
}

void RankGpu::read(void* host, const std::byte* memory, size_t bytes) {
  good(cuda_.to_host(host, address_in(memory), bytes, nullptr), "to the host");
  synchronize(nullptr);
}

void RankGpu::free(std::byte* memory) {
  good(cuda_.free(address_in(memory)), "cuMemFree");
}

void* RankGpu::allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  good(cuda_.allocate_host(&memory, bytes, 0), "cuMemHostAlloc");
  return memory;
}

void RankGpu::free_pinned(void* memory) {
  good(cuda_.free_host(memory), "cuMemFreeHost");
}

void* RankGpu::make_stream() {
  constexpr unsigned kNonBlocking = 1;
  void* stream = nullptr;
  good(cuda_.create_stream(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void RankGpu::destroy_stream(void* stream) {
  good(cuda_.destroy_stream(stream), "cuStreamDestroy");
}

void RankGpu::synchronize(void* stream) {
  good(cuda_.synchronize_stream(stream), "cuStreamSynchronize");
}

void RankGpu::write_on(void* stream, std::byte* memory, const void* host, size_t bytes) {
  good(cuda_.to_device(address_in(memory), host, bytes, stream), "to the device");
}

void RankGpu::read_on(void* stream, void* host, const std::byte* memory, size_t bytes) {
  good(cuda_.to_host(host, address_in(memory), bytes, stream), "to the host");
}

void RankGpu::hold(void* stream, StreamHold& held) {
  good(cuda_.call_host(stream, StreamHold::wait, &held), "cuLaunchHostFunc");
}

void RankGpu::wait_for_host(void* stream) {
  // What is in front of the call has been done when only the call is left.
  rank_.wait_until([&] { return cuda_.query_stream(stream) == kCudaNotReady; });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

bool RankGpu::begin_capture(void* stream) {
  constexpr int kThreadLocal = 1;
  const auto begin = function_of<int (*)(void*, int)>(library_, "cuStreamBeginCapture_v2");
  return good(begin(stream, kThreadLocal), "cuStreamBeginCapture");
}

bool RankGpu::end_capture(void* stream) {
  void* graph = nullptr;
  const auto end = function_of<int (*)(void*, void**)>(library_, "cuStreamEndCapture");
  const auto destroy = function_of<int (*)(void*)>(library_, "cuGraphDestroy");
  return good(end(stream, &graph), "cuStreamEndCapture") && good(destroy(graph), "destroy");
}

namespace {

using Fail = void (*)(const char* function, int after, int error);

}  // namespace

bool RankGpu::has_faults() const {
  return function_of<Fail>(library_, "standin_cuda_fail") != nullptr;
}

long RankGpu::calls(const char* function) const {
  return function_of<long (*)(const char*)>(library_, "standin_cuda_calls")(function);
}

void RankGpu::fail(const char* function, int after, int error) {
  function_of<Fail>(library_, "standin_cuda_fail")(function, after, error);
}

}  // namespace banyan::test
