// Captures and graphs of the stand-in for the CUDA driver: what is captured is done by launches
// only, and calls that a capture forbids are refused and spoil it.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <thread>

#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

constexpr int kIllegalState = 401, kIllegalAddress = 700, kUnsupported = 900, kInvalidated = 901,
              kUnjoined = 904, kIsolation = 905, kImplicit = 906, kCapturedEvent = 907,
              kWrongThread = 908;
constexpr int kGlobal = 0, kThreadLocal = 1, kRelaxed = 2;  // CUstreamCaptureMode
constexpr int kNone = 0, kActive = 1, kSpoilt = 2;          // CUstreamCaptureStatus

class StandinCapture : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    if (context_ == nullptr) return;
    queue_ = stream(kNonBlocking);
    memory_ = device_memory(4);
    seen_ = pinned<uint32_t>();
    *seen_ = 0;
  }

  int begin(Handle queue, int mode = kGlobal) {
    return standin_.find<int(Handle, int)>("cuStreamBeginCapture_v2")(queue, mode);
  }
  int end(Handle queue) {
    return standin_.find<int(Handle, Handle*)>("cuStreamEndCapture")(queue, &graph_);
  }
  int status(Handle queue) {
    int is = -1;
    EXPECT_EQ(cuda_.is_capturing(queue, &is), kCudaSuccess);
    return is;
  }
  Handle instantiated() {
    Handle made = nullptr;
    EXPECT_EQ(standin_.find<int(Handle*, Handle, unsigned long long)>(
                  "cuGraphInstantiateWithFlags")(&made, graph_, 0),
              kCudaSuccess);
    return made;
  }
  int launch(Handle executable, Handle queue) {
    return standin_.find<int(Handle, Handle)>("cuGraphLaunch")(executable, queue);
  }
  int fill(Handle queue, unsigned char value) { return cuda_.fill(memory_, value, 4, queue); }
  int show(Handle queue) { return cuda_.to_host(seen_, memory_, 4, queue); }
  uint32_t in_memory() {
    uint32_t value = 0;
    standin_.peek(&value, memory_, sizeof value);
    return value;
  }
  // The call is refused so, and the capture that it met is of no use.
  void expect_spoilt(int result, int wanted) {
    EXPECT_EQ(result, wanted);
    EXPECT_EQ(status(queue_), kSpoilt);
    EXPECT_EQ(fill(queue_, 1), kInvalidated);
    EXPECT_EQ(end(queue_), kInvalidated);
    EXPECT_EQ(graph_, nullptr);
    EXPECT_EQ(status(queue_), kNone);
  }

  Handle queue_ = nullptr, graph_ = nullptr;
  Address memory_ = 0;
  uint32_t* seen_ = nullptr;
};

TEST_F(StandinCapture, KeepsWorkForLaunches) {
  int called = 0;
  EXPECT_EQ(status(queue_), kNone);
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  EXPECT_EQ(begin(queue_), kIllegalState);
  EXPECT_EQ(status(queue_), kActive);
  ASSERT_EQ(fill(queue_, 3), kCudaSuccess);
  ASSERT_EQ(show(queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.call_host(
                queue_, [](void* number) { ++*static_cast<int*>(number); }, &called),
            kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  EXPECT_EQ(status(queue_), kNone);
  const Handle executable = instantiated();
  ASSERT_EQ(cuda_.synchronize_stream(queue_), kCudaSuccess);
  EXPECT_EQ(in_memory(), 0U);
  for (int times = 1; times <= 3; ++times) {
    *seen_ = 0;
    ASSERT_EQ(launch(executable, queue_), kCudaSuccess);
    ASSERT_EQ(cuda_.synchronize_stream(queue_), kCudaSuccess);
    EXPECT_EQ(*seen_, 0x03030303U);
    EXPECT_EQ(called, times);
  }
  EXPECT_EQ(standin_.live("graphs"), 2);
  EXPECT_EQ(standin_.find<int(Handle)>("cuGraphDestroy")(graph_), kCudaSuccess);
  EXPECT_EQ(standin_.find<int(Handle)>("cuGraphExecDestroy")(executable), kCudaSuccess);
  EXPECT_EQ(standin_.live("graphs"), 0);
}

TEST_F(StandinCapture, ReadsPageableMemoryAtTheLaunch) {
  uint32_t pageable = 1;
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.to_device(memory_, &pageable, 4, queue_), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  pageable = 2;
  ASSERT_EQ(launch(instantiated(), queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.synchronize_stream(queue_), kCudaSuccess);
  EXPECT_EQ(in_memory(), 2U);
}

TEST_F(StandinCapture, KeepsWaitsForValues) {
  uint32_t* word = pinned<uint32_t>();
  *word = 0;
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.wait_value(queue_, address_of(word), 1, 0), kCudaSuccess);
  ASSERT_EQ(fill(queue_, 1), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  ASSERT_EQ(launch(instantiated(), queue_), kCudaSuccess);
  EXPECT_EQ(cuda_.query_stream(queue_), kCudaNotReady);
  ASSERT_EQ(cuda_.write_value(stream(kNonBlocking), address_of(word), 1, 0), kCudaSuccess);
  ASSERT_EQ(cuda_.synchronize_stream(queue_), kCudaSuccess);
  EXPECT_EQ(in_memory(), 0x01010101U);
}

TEST_F(StandinCapture, TakesInStreamsThatWaitForItsEvents) {
  const Handle other = stream(kNonBlocking), fork = event(), join = event();
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  ASSERT_EQ(fill(queue_, 1), kCudaSuccess);
  ASSERT_EQ(cuda_.record_event(fork, queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.wait_event(other, fork, 0), kCudaSuccess);
  EXPECT_EQ(status(other), kActive);
  ASSERT_EQ(fill(other, 2), kCudaSuccess);
  ASSERT_EQ(cuda_.record_event(join, other), kCudaSuccess);
  ASSERT_EQ(cuda_.wait_event(queue_, join, 0), kCudaSuccess);
  ASSERT_EQ(show(queue_), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  EXPECT_EQ(status(other), kNone);
  EXPECT_EQ(in_memory(), 0U);
  ASSERT_EQ(launch(instantiated(), queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.synchronize_stream(queue_), kCudaSuccess);
  EXPECT_EQ(*seen_, 0x02020202U);
}

TEST_F(StandinCapture, NeedsThemBack) {
  const Handle other = stream(kNonBlocking), fork = event();
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  ASSERT_EQ(fill(queue_, 1), kCudaSuccess);
  ASSERT_EQ(cuda_.record_event(fork, queue_), kCudaSuccess);
  ASSERT_EQ(cuda_.wait_event(other, fork, 0), kCudaSuccess);
  ASSERT_EQ(fill(other, 2), kCudaSuccess);
  EXPECT_EQ(end(queue_), kUnjoined);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(status(other), kNone);
}

TEST_F(StandinCapture, IsSpoiltByWhoAsksForItsStream) {
  const Handle mark = event(), before = event();
  ASSERT_EQ(cuda_.record_event(before, queue_), kCudaSuccess);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  expect_spoilt(cuda_.synchronize_stream(queue_), kUnsupported);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  expect_spoilt(cuda_.query_stream(queue_), kUnsupported);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  expect_spoilt(cuda_.synchronize(), kUnsupported);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  expect_spoilt(cuda_.wait_event(queue_, before, 0), kIsolation);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  ASSERT_EQ(cuda_.record_event(mark, queue_), kCudaSuccess);
  expect_spoilt(cuda_.query_event(mark), kCapturedEvent);
  EXPECT_EQ(cuda_.query_event(mark), kCapturedEvent) << "as it was last recorded";
}

TEST_F(StandinCapture, IsSpoiltByUnsafeCallsAsItsModeSays) {
  const Handle mark = event();
  const auto query_elsewhere = [&] {
    int result = -1;
    std::thread([&] {
      EXPECT_EQ(cuda_.set_context(context_), kCudaSuccess);
      result = cuda_.query_event(mark);
    }).join();
    return result;
  };
  ASSERT_EQ(begin(queue_, kGlobal), kCudaSuccess);
  expect_spoilt(query_elsewhere(), kUnsupported);
  ASSERT_EQ(begin(queue_, kThreadLocal), kCudaSuccess);
  EXPECT_EQ(query_elsewhere(), kCudaSuccess);
  expect_spoilt(cuda_.query_event(mark), kUnsupported);
  ASSERT_EQ(begin(queue_, kGlobal), kCudaSuccess);
  Address memory = 0;
  expect_spoilt(cuda_.allocate(&memory, 8), kUnsupported);
  ASSERT_EQ(begin(queue_, kRelaxed), kCudaSuccess);
  EXPECT_EQ(query_elsewhere(), kCudaSuccess);
  EXPECT_EQ(cuda_.query_event(mark), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
}

TEST_F(StandinCapture, LetsThreadsChangeTheirMode) {
  const auto exchange = standin_.find<int(int*)>("cuThreadExchangeStreamCaptureMode");
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  int mode = kRelaxed;
  ASSERT_EQ(exchange(&mode), kCudaSuccess);
  EXPECT_EQ(mode, kGlobal);
  EXPECT_EQ(cuda_.query_event(event()), kCudaSuccess);
  ASSERT_EQ(exchange(&mode), kCudaSuccess);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(end(queue_), kCudaSuccess);
}

TEST_F(StandinCapture, LeavesTheLegacyStreamAloneUnlessItsStreamBlocks) {
  EXPECT_EQ(begin(nullptr), kUnsupported);
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  EXPECT_EQ(fill(nullptr, 1), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  queue_ = stream(kBlocking);
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  int is = -1;
  EXPECT_EQ(cuda_.is_capturing(nullptr, &is), kImplicit);
  EXPECT_EQ(status(queue_), kActive) << "to ask is allowed";
  expect_spoilt(fill(nullptr, 1), kImplicit);
}

TEST_F(StandinCapture, EndsInItsThread) {
  EXPECT_EQ(end(queue_), kIllegalState);
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  std::thread([&] {
    EXPECT_EQ(cuda_.set_context(context_), kCudaSuccess);
    EXPECT_EQ(end(queue_), kWrongThread);
  }).join();
  EXPECT_EQ(end(queue_), kCudaSuccess);
}

TEST_F(StandinCapture, BreaksTheContextByMemoryThatIsGone) {
  ASSERT_EQ(begin(queue_), kCudaSuccess);
  ASSERT_EQ(fill(queue_, 1), kCudaSuccess);
  ASSERT_EQ(end(queue_), kCudaSuccess);
  const Handle executable = instantiated();
  ASSERT_EQ(cuda_.free(memory_), kCudaSuccess);
  ASSERT_EQ(launch(executable, queue_), kCudaSuccess);
  EXPECT_EQ(cuda_.synchronize_stream(queue_), kIllegalAddress);
}

}  // namespace
}  // namespace banyan::test
