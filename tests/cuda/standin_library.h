// The stand-in for the CUDA driver, as tests load it: it is where STANDIN_CUDA says.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "src/base/cuda_driver.h"
#include "tests/cuda/driver/standin.h"

namespace banyan::test {

struct StandinCuda {
  void* driver = nullptr;
  CudaFunctions cuda{};
  decltype(&standin_cuda_fail) fail = nullptr;
  decltype(&standin_cuda_break) break_with = nullptr;
  decltype(&standin_cuda_calls) calls = nullptr;
  decltype(&standin_cuda_live) live = nullptr;
  decltype(&standin_cuda_peek) peek = nullptr;
  decltype(&standin_cuda_poke) poke = nullptr;
  decltype(&standin_cuda_seed) seed = nullptr;
  decltype(&standin_cuda_delay) delay = nullptr;

  // Any other function of it, of this type; null: it has none of this name.
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(driver, name));
  }
};

// Without a driver in it, and with a failure of the test, where there is none.
inline StandinCuda open_standin_cuda() {
  StandinCuda opened;
  const char* path = std::getenv("STANDIN_CUDA");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  opened.driver = path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (opened.driver == nullptr) {
    ADD_FAILURE() << "STANDIN_CUDA names the driver: " << (path == nullptr ? "" : ::dlerror());
    return opened;
  }
  opened.cuda = cuda_functions(opened.driver);
  opened.fail = opened.find<decltype(standin_cuda_fail)>("standin_cuda_fail");
  opened.break_with = opened.find<decltype(standin_cuda_break)>("standin_cuda_break");
  opened.calls = opened.find<decltype(standin_cuda_calls)>("standin_cuda_calls");
  opened.live = opened.find<decltype(standin_cuda_live)>("standin_cuda_live");
  opened.peek = opened.find<decltype(standin_cuda_peek)>("standin_cuda_peek");
  opened.poke = opened.find<decltype(standin_cuda_poke)>("standin_cuda_poke");
  opened.seed = opened.find<decltype(standin_cuda_seed)>("standin_cuda_seed");
  opened.delay = opened.find<decltype(standin_cuda_delay)>("standin_cuda_delay");
  return opened;
}

// The primary context of a device, current in the thread of the test; at the end all that the test
// has left there ends with it.
class WithStandinCuda : public testing::Test {
 protected:
  using Handle = CudaFunctions::Handle;
  using Address = CudaFunctions::Address;

  void SetUp() override {
    standin_ = open_standin_cuda();
    ASSERT_NE(standin_.driver, nullptr);
    ASSERT_EQ(cuda_.init(0), kCudaSuccess);
    standin_.delay(100);
    ASSERT_EQ(cuda_.retain_context(&context_, 0), kCudaSuccess);
    ASSERT_EQ(cuda_.set_context(context_), kCudaSuccess);
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    standin_.break_with(kCudaSuccess);
    EXPECT_EQ(cuda_.set_context(nullptr), kCudaSuccess);
    EXPECT_EQ(cuda_.release_context(0), kCudaSuccess);
  }

  Handle stream(unsigned flags) const {
    Handle made = nullptr;
    EXPECT_EQ(cuda_.create_stream(&made, flags), kCudaSuccess);
    return made;
  }
  Handle event(unsigned flags = 0) const {
    Handle made = nullptr;
    EXPECT_EQ(cuda_.create_event(&made, flags), kCudaSuccess);
    return made;
  }
  Address device_memory(size_t bytes) const {
    Address made = 0;
    EXPECT_EQ(cuda_.allocate(&made, bytes), kCudaSuccess);
    return made;
  }
  template <typename Value>
  Value* pinned(size_t count = 1) {
    void* made = nullptr;
    EXPECT_EQ(cuda_.allocate_host(&made, count * sizeof(Value), 0), kCudaSuccess);
    return static_cast<Value*>(made);
  }
  static Address address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

  static constexpr unsigned kBlocking = 0, kNonBlocking = 1;

  StandinCuda standin_;
  const CudaFunctions& cuda_ = standin_.cuda;
  Handle context_ = nullptr;
};

// Holds a stream up until it is opened.
class StreamGate {
 public:
  StreamGate(const CudaFunctions& cuda, uint32_t* pinned_word) : cuda_(cuda), word_(pinned_word) {
    std::atomic_ref(*word_).store(0);
  }
  void close(CudaFunctions::Handle stream) {
    EXPECT_EQ(cuda_.wait_value(stream, reinterpret_cast<uintptr_t>(word_), 1, 0), kCudaSuccess);
  }
  void open() { std::atomic_ref(*word_).store(1); }

 private:
  const CudaFunctions& cuda_;
  uint32_t* const word_;
};

}  // namespace banyan::test
