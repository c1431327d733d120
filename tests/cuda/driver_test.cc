// The stand-in for the CUDA driver behaves as the driver does, so that what tests see with it means
// something.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "src/base/cuda_driver.h"
#include "tests/cuda/driver/standin.h"

namespace banyan::test {
namespace {

using Address = CudaFunctions::Address;
using Handle = CudaFunctions::Handle;

constexpr int kInvalidValue = 1, kNoContext = 201, kNotPermitted = 800;

Address address_of(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

class StandIn : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(std::getenv("STANDIN_CUDA"), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    ASSERT_NE(library_, nullptr) << dlerror();
    cuda_ = cuda_functions(library_);
    ASSERT_EQ(cuda_.init(0), 0);
    ASSERT_EQ(cuda_.retain_context(&context_, 0), 0);
    ASSERT_EQ(cuda_.set_context(context_), 0);
    find("standin_cuda_fail", &fail_);
    find("standin_cuda_break", &break_);
    find("standin_cuda_calls", &calls_);
  }
  void TearDown() override { cuda_.set_context(nullptr); }

  template <typename Function>
  void find(const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(library_, name));
    ASSERT_NE(*function, nullptr) << name;
  }
  Address allocate(size_t bytes) const {
    Address memory = 0;
    EXPECT_EQ(cuda_.allocate(&memory, bytes), 0);
    return memory;
  }
  Handle make_stream(unsigned flags = 1) const {
    Handle stream = nullptr;
    EXPECT_EQ(cuda_.create_stream(&stream, flags), 0);
    return stream;
  }
  int* allocate_ints(size_t count) const {
    void* memory = nullptr;
    EXPECT_EQ(cuda_.allocate_host(&memory, count * sizeof(int), 0), 0);
    return static_cast<int*>(memory);
  }

  void* library_ = nullptr;
  CudaFunctions cuda_;
  Handle context_ = nullptr;
  decltype(standin_cuda_fail)* fail_ = nullptr;
  decltype(standin_cuda_break)* break_ = nullptr;
  decltype(standin_cuda_calls)* calls_ = nullptr;
};

using StandInDeathTest = StandIn;

TEST_F(StandInDeathTest, KeepsTheHostFromItsMemory) {
  const Address memory = allocate(64);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(memory) = 1, "");  // NOLINT: that is the test
  EXPECT_EQ(cuda_.free(memory), 0);
}

TEST_F(StandIn, KnowsWhatItGave) {
  const Address memory = allocate(100);
  unsigned type = 0;
  int ordinal = -1;
  EXPECT_EQ(cuda_.pointer_attribute(&type, 2, memory + 99), 0);
  EXPECT_EQ(type, 2u);
  EXPECT_EQ(cuda_.pointer_attribute(&ordinal, 9, memory), 0);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(cuda_.pointer_attribute(&type, 2, memory + 100), kInvalidValue);
  EXPECT_EQ(cuda_.pointer_attribute(&type, 2, address_of(&type)), kInvalidValue);
  EXPECT_EQ(cuda_.free(memory), 0);
  EXPECT_EQ(cuda_.pointer_attribute(&type, 2, memory), kInvalidValue) << "freed";
  EXPECT_EQ(cuda_.free(memory), kInvalidValue) << "twice";
}

TEST_F(StandIn, CopiesInTheOrderOfAStream) {
  constexpr size_t kCount = 1000;
  int* host = allocate_ints(2 * kCount);
  const Address memory = allocate(kCount * sizeof(int));
  const Handle stream = make_stream();
  for (int round = 0; round < 20; ++round) {
    std::iota(host, host + kCount, round);
    EXPECT_EQ(cuda_.to_device(memory, host, kCount * sizeof(int), stream), 0);
    EXPECT_EQ(cuda_.to_host(host + kCount, memory, kCount * sizeof(int), stream), 0);
    EXPECT_EQ(cuda_.synchronize_stream(stream), 0);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(host[kCount + i], round + static_cast<int>(i));
  }
  EXPECT_EQ(cuda_.to_device(memory + 4, host, kCount * sizeof(int), stream), kInvalidValue)
      << "it ends behind the allocation";
  EXPECT_EQ(cuda_.destroy_stream(stream), 0);
  EXPECT_EQ(cuda_.free(memory), 0);
  EXPECT_EQ(cuda_.free_host(host), 0);
}

TEST_F(StandIn, ReadsOrdinaryMemoryBeforeItReturns) {
  const Address memory = allocate(sizeof(int));
  int value = 7, got = 0;
  EXPECT_EQ(cuda_.to_device(memory, &value, sizeof value, nullptr), 0);
  value = 8;
  EXPECT_EQ(cuda_.to_host(&got, memory, sizeof got, nullptr), 0);
  EXPECT_EQ(got, 7) << "ordinary memory was written when this returned";
  EXPECT_EQ(cuda_.free(memory), 0);
}

TEST_F(StandIn, WaitsForEventsOfOtherStreams) {
  int* host = allocate_ints(2);
  const Address memory = allocate(sizeof(int));
  const Handle first = make_stream(), second = make_stream();
  Handle event = nullptr;
  ASSERT_EQ(cuda_.create_event(&event, 2), 0);
  EXPECT_EQ(cuda_.query_event(event), 0) << "nothing was recorded";
  for (int round = 0; round < 20; ++round) {
    host[0] = round;
    EXPECT_EQ(cuda_.to_device(memory, host, sizeof(int), first), 0);
    EXPECT_EQ(cuda_.record_event(event, first), 0);
    EXPECT_EQ(cuda_.wait_event(second, event, 0), 0);
    EXPECT_EQ(cuda_.to_host(host + 1, memory, sizeof(int), second), 0);
    EXPECT_EQ(cuda_.synchronize_stream(second), 0);
    ASSERT_EQ(host[1], round);
    EXPECT_EQ(cuda_.query_event(event), 0);
  }
  EXPECT_EQ(cuda_.destroy_event(event), 0);
  for (Handle stream : {first, second}) EXPECT_EQ(cuda_.destroy_stream(stream), 0);
  EXPECT_EQ(cuda_.free(memory), 0);
  EXPECT_EQ(cuda_.free_host(host), 0);
}

TEST_F(StandIn, HasALegacyStreamThatOrdersTheOthers) {
  int* host = allocate_ints(2);
  const Address memory = allocate(sizeof(int));
  const Handle blocking = make_stream(0);
  for (int round = 0; round < 20; ++round) {
    host[0] = round;
    EXPECT_EQ(cuda_.to_device(memory, host, sizeof(int), blocking), 0);
    EXPECT_EQ(cuda_.on_device(memory, memory, sizeof(int), nullptr), 0);
    EXPECT_EQ(cuda_.to_host(host + 1, memory, sizeof(int), blocking), 0);
    EXPECT_EQ(cuda_.synchronize_stream(blocking), 0);
    ASSERT_EQ(host[1], round);
    EXPECT_EQ(cuda_.query_stream(nullptr), 0) << "it was in between";
  }
  EXPECT_EQ(cuda_.destroy_stream(blocking), 0);
  EXPECT_EQ(cuda_.free(memory), 0);
  EXPECT_EQ(cuda_.free_host(host), 0);
}

TEST_F(StandIn, WaitsForWords) {
  int* word = allocate_ints(1);
  *word = 4;
  const Handle stream = make_stream();
  EXPECT_EQ(cuda_.wait_value(stream, address_of(word), 5, 0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(cuda_.query_stream(stream), kCudaNotReady);
  std::atomic_ref<int>(*word).store(6);
  EXPECT_EQ(cuda_.synchronize_stream(stream), 0);
  EXPECT_EQ(cuda_.write_value(stream, address_of(word), 9, 0), 0);
  EXPECT_EQ(cuda_.synchronize_stream(stream), 0);
  EXPECT_EQ(*word, 9);
  int ordinary = 0;
  EXPECT_EQ(cuda_.wait_value(stream, address_of(&ordinary), 1, 0), kInvalidValue) << "not pinned";
  EXPECT_EQ(cuda_.destroy_stream(stream), 0);
  EXPECT_EQ(cuda_.free_host(word), 0);
}

struct Called {
  const CudaFunctions* cuda;
  int count = 0;
  int said = 0;
};

TEST_F(StandIn, CallsTheHostWhichMayNotCallBack) {
  const Handle stream = make_stream();
  Called called{&cuda_};
  const auto call = [](void* argument) {
    auto& self = *static_cast<Called*>(argument);
    ++self.count;
    self.said = self.cuda->query_stream(nullptr);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuda_.call_host(stream, call, &called), 0);
  EXPECT_EQ(cuda_.synchronize_stream(stream), 0);
  EXPECT_EQ(called.count, 3);
  EXPECT_EQ(called.said, kNotPermitted);
  EXPECT_EQ(cuda_.destroy_stream(stream), 0);
}

TEST_F(StandIn, HasAStackOfContextsForEachThread) {
  Handle second = nullptr, got = nullptr;
  ASSERT_EQ(cuda_.retain_context(&second, 1), 0);
  EXPECT_EQ(cuda_.push_context(second), 0);
  CudaFunctions::Device device = -1;
  EXPECT_EQ(cuda_.current_device(&device), 0);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuda_.pop_context(&got), 0);
  EXPECT_EQ(got, second);
  EXPECT_EQ(cuda_.current_context(&got), 0);
  EXPECT_EQ(got, context_);
  std::thread([&] {
    Address memory = 0;
    EXPECT_EQ(cuda_.allocate(&memory, 64), kNoContext);
  }).join();
}

TEST_F(StandIn, FailsAsItIsAsked) {
  const long before = calls_("cuMemAlloc_v2");
  fail_("cuMemAlloc_v2", 1, 2);
  Address first = 0, second = 0, third = 0;
  EXPECT_EQ(cuda_.allocate(&first, 64), 0);
  EXPECT_EQ(cuda_.allocate(&second, 64), 2);
  EXPECT_EQ(cuda_.allocate(&third, 64), 0);
  EXPECT_EQ(calls_("cuMemAlloc_v2"), before + 3);
  break_(719);
  EXPECT_EQ(cuda_.query_stream(nullptr), 719);
  EXPECT_EQ(cuda_.allocate(&second, 64), 719);
  break_(0);
  for (const Address memory : {first, third}) EXPECT_EQ(cuda_.free(memory), 0);
}

TEST_F(StandIn, KeepsWhatIsCaptured) {
  int (*begin)(Handle, int) = nullptr;
  int (*end)(Handle, Handle*) = nullptr;
  int (*instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  int (*launch)(Handle, Handle) = nullptr;
  find("cuStreamBeginCapture_v2", &begin);
  find("cuStreamEndCapture", &end);
  find("cuGraphInstantiateWithFlags", &instantiate);
  find("cuGraphLaunch", &launch);
  const Handle stream = make_stream();
  Called called{&cuda_};
  Handle graph = nullptr, executable = nullptr;
  int capturing = 0;
  EXPECT_EQ(begin(stream, 1), 0);
  EXPECT_EQ(cuda_.is_capturing(stream, &capturing), 0);
  EXPECT_EQ(capturing, 1);
  EXPECT_EQ(cuda_.is_capturing(nullptr, &capturing), kCudaCaptureImplicit);
  EXPECT_EQ(cuda_.call_host(
                stream, [](void* it) { ++static_cast<Called*>(it)->count; }, &called),
            0);
  EXPECT_EQ(end(stream, &graph), 0);
  EXPECT_EQ(called.count, 0) << "nothing has run";
  EXPECT_EQ(instantiate(&executable, graph, 0), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(launch(executable, stream), 0);
  EXPECT_EQ(cuda_.synchronize_stream(stream), 0);
  EXPECT_EQ(called.count, 3);
  for (const char* name : {"cuGraphDestroy", "cuGraphExecDestroy"}) {
    int (*destroy)(Handle) = nullptr;
    find(name, &destroy);
    EXPECT_EQ(destroy(name[7] == 'D' ? graph : executable), 0);
  }
  EXPECT_EQ(cuda_.destroy_stream(stream), 0);
}

}  // namespace
}  // namespace banyan::test
