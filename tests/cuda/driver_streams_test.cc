// Streams, events and values of the stand-in for the CUDA driver order work as CUDA says.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

constexpr int kInvalidValue = 1, kInvalidHandle = 400, kNotPermitted = 800, kNotSupported = 801;

class StandinStreams : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    if (context_ == nullptr) return;
    gate_.emplace_back(cuda_, pinned<uint32_t>());
    word_ = pinned<uint32_t>();
    *word_ = 0;
  }

  StreamGate& gate() { return gate_.front(); }
  uint32_t word() { return std::atomic_ref(*word_).load(); }
  void write(Handle queue, uint32_t value) {
    ASSERT_EQ(cuda_.write_value(queue, address_of(word_), value, 0), kCudaSuccess);
  }
  // Time for what is not to happen.
  void let_others_work() {
    const Handle queue = stream(kNonBlocking);
    const Address memory = device_memory(4);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(cuda_.fill(memory, 1, 4, queue), kCudaSuccess);
      ASSERT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
    }
  }
  void expect_held_up(Handle queue) {
    let_others_work();
    EXPECT_EQ(cuda_.query_stream(queue), kCudaNotReady);
    EXPECT_EQ(word(), 0U);
  }
  void expect_done(Handle queue, uint32_t wanted) {
    EXPECT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
    EXPECT_EQ(cuda_.query_stream(queue), kCudaSuccess);
    EXPECT_EQ(word(), wanted);
  }

  std::deque<StreamGate> gate_;
  uint32_t* word_ = nullptr;
};

// NOLINTNEXTLINE(performance-no-int-to-ptr): as cuda.h has it
const auto legacy_stream = reinterpret_cast<CudaFunctions::Handle>(1);
// NOLINTNEXTLINE(performance-no-int-to-ptr): as cuda.h has it
const auto own_stream = reinterpret_cast<CudaFunctions::Handle>(2);

TEST_F(StandinStreams, DoOneThingAfterTheOther) {
  const Handle queue = stream(kNonBlocking);
  const Address memory = device_memory(4);
  uint32_t* seen = pinned<uint32_t>(100);
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_EQ(cuda_.fill(memory, static_cast<unsigned char>(i), 4, queue), kCudaSuccess);
    ASSERT_EQ(cuda_.to_host(seen + i, memory, 4, queue), kCudaSuccess);
  }
  ASSERT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i * 0x01010101);
}

TEST_F(StandinStreams, ReturnBeforeTheWorkIsDone) {
  const Handle queue = stream(kNonBlocking);
  gate().close(queue);
  write(queue, 1);
  expect_held_up(queue);
  gate().open();
  expect_done(queue, 1);
}

TEST_F(StandinStreams, LegacyWaitsForThoseThatBlock) {
  const Handle blocking = stream(kBlocking);
  for (const Handle legacy : {Handle{nullptr}, legacy_stream}) {
    gate_.emplace_front(cuda_, pinned<uint32_t>());
    *word_ = 0;
    gate().close(blocking);
    write(legacy, 1);
    expect_held_up(legacy);
    gate().open();
    expect_done(legacy, 1);
  }
}

TEST_F(StandinStreams, ThatBlockWaitForTheLegacyOne) {
  for (const Handle blocking : {stream(kBlocking), own_stream}) {
    gate_.emplace_front(cuda_, pinned<uint32_t>());
    *word_ = 0;
    gate().close(nullptr);
    write(blocking, 1);
    expect_held_up(blocking);
    gate().open();
    expect_done(blocking, 1);
  }
}

TEST_F(StandinStreams, ThatDoNotBlockWaitForNobody) {
  const Handle free = stream(kNonBlocking);
  gate().close(nullptr);
  write(free, 1);
  expect_done(free, 1);
  gate().open();
  gate_.emplace_front(cuda_, pinned<uint32_t>());
  gate().close(free);
  write(nullptr, 2);
  expect_done(nullptr, 2);
  gate().open();
}

TEST_F(StandinStreams, OfOneKindDoNotWaitForEachOther) {
  const Handle one = stream(kBlocking), other = stream(kBlocking);
  gate().close(one);
  write(other, 1);
  expect_done(other, 1);
  gate().open();
}

TEST_F(StandinStreams, OfTwoThreadsAreTwo) {
  gate().close(own_stream);
  std::thread([&] {
    ASSERT_EQ(cuda_.set_context(context_), kCudaSuccess);
    write(own_stream, 1);
    expect_done(own_stream, 1);
  }).join();
  EXPECT_EQ(cuda_.query_stream(own_stream), kCudaNotReady);
  gate().open();
}

TEST_F(StandinStreams, FinishTheirWorkWhenTheyAreDestroyed) {
  const Handle queue = stream(kBlocking);
  gate().close(queue);
  write(queue, 1);
  ASSERT_EQ(cuda_.destroy_stream(queue), kCudaSuccess);
  EXPECT_EQ(cuda_.query_stream(queue), kInvalidHandle);
  EXPECT_EQ(cuda_.destroy_stream(queue), kInvalidHandle);
  write(nullptr, 2);
  expect_held_up(nullptr);
  gate().open();
  expect_done(nullptr, 2);
}

TEST_F(StandinStreams, AreAllWaitedForByTheContext) {
  gate().close(stream(kNonBlocking));
  const Handle queue = stream(kNonBlocking), last = event();
  std::thread opens([&] { gate().open(); });
  write(queue, 1);
  ASSERT_EQ(cuda_.record_event(last, queue), kCudaSuccess);
  EXPECT_EQ(cuda_.synchronize(), kCudaSuccess);
  EXPECT_EQ(cuda_.query_event(last), kCudaSuccess);
  EXPECT_EQ(word(), 1U);
  opens.join();
}

TEST_F(StandinStreams, WaitForEventsAsTheyWere) {
  const Handle one = stream(kNonBlocking), other = stream(kNonBlocking), mark = event();
  ASSERT_EQ(cuda_.wait_event(other, mark, 0), kCudaSuccess) << "it was never recorded";
  EXPECT_EQ(cuda_.query_event(mark), kCudaSuccess);
  gate().close(one);
  ASSERT_EQ(cuda_.record_event(mark, one), kCudaSuccess);
  EXPECT_EQ(cuda_.query_event(mark), kCudaNotReady);
  ASSERT_EQ(cuda_.wait_event(other, mark, 0), kCudaSuccess);
  write(other, 1);
  expect_held_up(other);
  const Handle third = stream(kNonBlocking);
  ASSERT_EQ(cuda_.record_event(mark, third), kCudaSuccess);
  ASSERT_EQ(cuda_.destroy_event(mark), kCudaSuccess);
  EXPECT_EQ(cuda_.query_event(mark), kInvalidHandle);
  expect_held_up(other);
  gate().open();
  expect_done(other, 1);
}

TEST_F(StandinStreams, WaitForEventsOfOtherDevices) {
  Handle far = nullptr, popped = nullptr;
  ASSERT_EQ(cuda_.retain_context(&far, 1), kCudaSuccess);
  ASSERT_EQ(cuda_.push_context(far), kCudaSuccess);
  const Handle there = stream(kNonBlocking), mark = event();
  gate().close(there);
  ASSERT_EQ(cuda_.record_event(mark, there), kCudaSuccess);
  ASSERT_EQ(cuda_.pop_context(&popped), kCudaSuccess);
  const Handle here = stream(kNonBlocking);
  EXPECT_EQ(cuda_.record_event(mark, here), kInvalidHandle);
  ASSERT_EQ(cuda_.wait_event(here, mark, 0), kCudaSuccess);
  write(here, 1);
  expect_held_up(here);
  gate().open();
  expect_done(here, 1);
  ASSERT_EQ(cuda_.release_context(1), kCudaSuccess);
}

TEST_F(StandinStreams, MeasureTimeBetweenEvents) {
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  const Handle queue = stream(kNonBlocking), from = event(), to = event(),
               untimed = event(kDisableTiming);
  float ms = -1;
  EXPECT_EQ(cuda_.elapsed(&ms, from, to), kInvalidHandle) << "neither was recorded";
  for (const Handle mark : {from, untimed})
    ASSERT_EQ(cuda_.record_event(mark, queue), kCudaSuccess);
  gate().close(queue);
  ASSERT_EQ(cuda_.record_event(to, queue), kCudaSuccess);
  EXPECT_EQ(cuda_.elapsed(&ms, from, to), kCudaNotReady);
  gate().open();
  ASSERT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
  ASSERT_EQ(cuda_.elapsed(&ms, from, to), kCudaSuccess);
  EXPECT_GE(ms, 0);
  EXPECT_LT(ms, 60'000);
  EXPECT_EQ(cuda_.elapsed(&ms, untimed, to), kInvalidHandle);
  Handle refused = nullptr;
  EXPECT_EQ(cuda_.create_event(&refused, kInterprocess), kInvalidValue);
}

struct HostCall {
  const CudaFunctions* cuda;
  std::thread::id thread{};
  int query = -1;
};

TEST_F(StandinStreams, CallTheHostWhichMayNotCallBack) {
  const Handle queue = stream(kNonBlocking);
  HostCall called{&cuda_};
  const auto function = [](void* argument) {
    auto& call = *static_cast<HostCall*>(argument);
    call.thread = std::this_thread::get_id();
    call.query = call.cuda->query_event(nullptr);
  };
  gate().close(queue);
  ASSERT_EQ(cuda_.call_host(queue, function, &called), kCudaSuccess);
  write(queue, 1);
  expect_held_up(queue);
  gate().open();
  expect_done(queue, 1);
  EXPECT_NE(called.thread, std::thread::id());
  EXPECT_NE(called.thread, std::this_thread::get_id());
  EXPECT_EQ(called.query, kNotPermitted);
}

struct Condition {
  uint32_t now;
  uint32_t value;
  unsigned flags;
  bool holds;
};

TEST_F(StandinStreams, WaitForValues) {
  uint32_t* now = pinned<uint32_t>();
  for (const Condition& c :
       {Condition{5, 5, 0, true}, Condition{6, 5, 0, true}, Condition{4, 5, 0, false},
        Condition{2, 0xffff'fffe, 0, true}, Condition{0xffff'fffe, 2, 0, false},
        Condition{5, 5, 1, true}, Condition{6, 5, 1, false}, Condition{6, 2, 2, true},
        Condition{4, 3, 2, false}, Condition{1, 2, 3, true}, Condition{~4U, 4, 3, false}}) {
    SCOPED_TRACE(testing::Message() << c.now << ", " << c.value << ", " << c.flags);
    const Handle queue = stream(kNonBlocking);
    std::atomic_ref(*now).store(c.now);
    ASSERT_EQ(cuda_.wait_value(queue, address_of(now), c.value, c.flags), kCudaSuccess);
    if (!c.holds) {
      let_others_work();
      EXPECT_EQ(cuda_.query_stream(queue), kCudaNotReady);
      std::atomic_ref(*now).store(c.flags == 3 ? 0 : c.value);
    }
    EXPECT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
  }
}

TEST_F(StandinStreams, WaitForValuesInMemoryThatTheyReach) {
  const auto wait_wide =
      standin_.find<int(Handle, Address, uint64_t, unsigned)>("cuStreamWaitValue64_v2");
  const auto write_wide =
      standin_.find<int(Handle, Address, uint64_t, unsigned)>("cuStreamWriteValue64_v2");
  const Handle one = stream(kNonBlocking), other = stream(kNonBlocking);
  const Address memory = device_memory(16);
  constexpr uint64_t kWide = 0x1'0000'0000;
  ASSERT_EQ(wait_wide(one, memory + 8, kWide, 1), kCudaSuccess);
  write(one, 1);
  expect_held_up(one);
  ASSERT_EQ(write_wide(other, memory + 8, kWide, 0), kCudaSuccess);
  expect_done(one, 1);
  uint32_t own = 7;
  EXPECT_EQ(cuda_.wait_value(one, address_of(&own), 7, 1), kInvalidValue);
  ASSERT_EQ(cuda_.register_host(&own, sizeof own, 0), kCudaSuccess);
  EXPECT_EQ(cuda_.wait_value(one, address_of(&own), 7, 1), kCudaSuccess);
  EXPECT_EQ(cuda_.wait_value(one, memory + 2, 0, 0), kInvalidValue) << "not aligned";
  EXPECT_EQ(wait_wide(one, memory + 16, 0, 0), kInvalidValue);
  EXPECT_EQ(cuda_.wait_value(one, memory, 0, 4), kInvalidValue);
  EXPECT_EQ(cuda_.wait_value(one, memory, 0, 1U << 30), kNotSupported) << "no device flushes";
  ASSERT_EQ(cuda_.unregister_host(&own), kCudaSuccess);
}

// What each step must come after, for all streams at once: the last step that it knows of each.
struct StreamModel {
  enum { kLegacyOne, kTwoBlocking, kThreadsOwn = 3, kFree = 4, kCount = 6 };
  using Clock = std::vector<int>;

  static bool blocks(size_t queue) { return queue >= kTwoBlocking && queue <= kThreadsOwn; }
  static void join(Clock& into, const Clock& other) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
  }
  // What comes next there knows this.
  Clock& order(size_t queue) {
    if (queue == kLegacyOne)
      for (size_t other = kTwoBlocking; other <= kThreadsOwn; ++other)
        join(clocks[queue], clocks[other]);
    if (blocks(queue)) join(clocks[queue], clocks[kLegacyOne]);
    return clocks[queue];
  }

  std::vector<Clock> clocks = std::vector<Clock>(kCount, Clock(kCount, 0));
};

struct OrderedStep {
  size_t queue;
  int number;  // of its queue, from 1
  StreamModel::Clock after;
  std::vector<OrderedStep*>* done;
  std::mutex* mutex;
};

void note_step(void* argument) {
  auto* step = static_cast<OrderedStep*>(argument);
  const std::lock_guard lock(*step->mutex);
  step->done->push_back(step);
}

TEST_F(StandinStreams, KeepAnyOrderThatIsAskedFor) {
  std::minstd_rand chance(1);
  std::mutex mutex;
  std::vector<OrderedStep*> done;
  std::deque<OrderedStep> steps;
  StreamModel model;
  const Handle queues[] = {nullptr,    stream(kBlocking),    stream(kBlocking),
                           own_stream, stream(kNonBlocking), stream(kNonBlocking)};
  const Handle marks[] = {event(), event(), event()};
  StreamModel::Clock marked[] = {model.clocks[0], model.clocks[0], model.clocks[0]};
  standin_.delay(30);
  for (int i = 0; i < 600; ++i) {
    const size_t at = chance() % StreamModel::kCount, mark = chance() % 3;
    switch (chance() % 4) {
      case 0:
        ASSERT_EQ(cuda_.record_event(marks[mark], queues[at]), kCudaSuccess);
        marked[mark] = model.order(at);
        break;
      case 1:
        ASSERT_EQ(cuda_.wait_event(queues[at], marks[mark], 0), kCudaSuccess);
        StreamModel::join(model.order(at), marked[mark]);
        break;
      default: {
        StreamModel::Clock& clock = model.order(at);
        steps.push_back({at, clock[at] + 1, clock, &done, &mutex});
        clock[at]++;
        ASSERT_EQ(cuda_.call_host(queues[at], note_step, &steps.back()), kCudaSuccess);
      }
    }
  }
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess);
  ASSERT_EQ(done.size(), steps.size());
  StreamModel::Clock seen(StreamModel::kCount, 0);
  for (const OrderedStep* step : done) {
    for (size_t queue = 0; queue < seen.size(); ++queue)
      EXPECT_GE(seen[queue], step->after[queue])
          << "step " << step->number << " of " << step->queue;
    seen[step->queue] = step->number;
  }
}

using StandinStreamsDeathTest = StandinStreams;

TEST_F(StandinStreamsDeathTest, LetAProgramEndWhileTheyWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        gate().close(stream(kNonBlocking));
        for (int i = 0; i < 100; ++i) write(stream(kNonBlocking), 1);
        std::exit(0);  // NOLINT(concurrency-mt-unsafe): with its threads
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace banyan::test
