// Collectives on memory of a GPU, and in the order of streams: the driver is one for tests, whose
// memory no CPU can touch and whose streams take their time.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "src/cuda/device_memory.h"
#include "tests/ranks/device_fixture.h"
#include "tests/ranks/ranks_cases.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::device_test {
namespace {

// Some buffers in the memory of a GPU, others in that of the host.
class MixedLender final : public Lender {
 public:
  MixedLender(RankGpu& gpu, unsigned seed, double share)
      : gpu_(gpu), random_(seed), on_gpu_(share) {}

  std::byte* lend(Memory& memory) override {
    return on_gpu_(random_) ? gpu_.copy_of(memory.data(), memory.size()) : memory.data();
  }
  void take_back(std::byte* lent, Memory& memory) override {
    if (lent == memory.data()) return;
    gpu_.read(memory.data(), lent, memory.size());
    gpu_.free(lent);
  }

 private:
  RankGpu& gpu_;
  std::mt19937 random_;
  std::bernoulli_distribution on_gpu_;
};

class DeviceCalls : public WithGpus {};

TEST_P(DeviceCalls, HaveEveryCollective) {
  for (const int size : {1, 2, 3, 5}) {
    const Table tables[] = {Table(DataType::kFloat32, ReduceOp::kSum, size, 1),
                            Table(DataType::kBfloat16, ReduceOp::kAvg, size, 2),
                            Table(DataType::kInt8, ReduceOp::kMax, size, 3)};
    run_on_gpus(size, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
      for (const double share : {1.0, 0.5}) {
        MixedLender lender(gpu, static_cast<unsigned>(self.rank()), share);
        Bench bench(self, comm);
        bench.use(lender);
        size_t draw = 0;
        for (const Collective collective : kCollectives)
          for (const Table& table : tables)
            for (const size_t count : {0, 1, 63, 5000}) {
              const Case call{.collective = collective,
                              .count = count,
                              .root = static_cast<int>(++draw) % size,
                              .in_place = draw % 3 == 0,
                              .skew = draw % 8};
              if (!bench.run(call, table)) return;
            }
        self.agree(bench.digest(), "results that every rank holds");
      }
    });
  }
}

TEST_P(DeviceCalls, HaveLargeMessages) {
  const Table table(DataType::kFloat32, ReduceOp::kSum, 2, 4);
  run_on_gpus(2, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    MixedLender lender(gpu, 1, 1.0);
    Bench bench(self, comm);
    bench.use(lender);
    for (const size_t count : {size_t{300001}, size_t{kThreadSanitizer ? 1U : 5U} << 20})
      for (const bool in_place : {false, true})
        if (!bench.run({.count = count, .in_place = in_place}, table)) return;
  });
}

TEST_P(DeviceCalls, HaveMessages) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    std::vector<int> mine(1000, self.rank() + 1), theirs(1000), own(1000);
    std::byte* send = gpu.copy_of(mine.data(), 4000);
    std::byte* recv = gpu.copy_of(own.data(), 4000);
    std::byte* copy = gpu.copy_of(own.data(), 4000);
    self.expect_ok(banyan_group_start(), "group");
    self.expect_ok(banyan_send(send, 1000, BANYAN_INT32, 1 - self.rank(), comm), "send");
    self.expect_ok(banyan_recv(recv, 1000, BANYAN_INT32, 1 - self.rank(), comm), "recv");
    self.expect_ok(banyan_send(send, 1000, BANYAN_INT32, self.rank(), comm), "send to oneself");
    self.expect_ok(banyan_recv(copy, 1000, BANYAN_INT32, self.rank(), comm), "recv from oneself");
    self.expect_ok(banyan_group_end(), "group end");
    gpu.read(theirs.data(), recv, 4000);
    gpu.read(own.data(), copy, 4000);
    self.expect(theirs == std::vector<int>(1000, 2 - self.rank()), "what the other has sent");
    self.expect(own == mine, "what went to oneself");
    for (std::byte* memory : {send, recv, copy}) gpu.free(memory);
  });
}

// A call that is known by its numbers does not know the memory of a GPU.
TEST_P(DeviceCalls, FollowCallsOfTheHost) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    std::vector<float> ones(8, 1), sums(8);
    std::byte* memory = gpu.copy_of(ones.data(), 32);
    for (int round = 0; round < 6; ++round) {
      void* recv = round % 2 == 0 ? static_cast<void*>(sums.data()) : memory;
      self.expect_ok(banyan_allreduce(ones.data(), recv, 8, BANYAN_FLOAT32, BANYAN_SUM, comm),
                     "allreduce");
      if (round % 2 == 1) gpu.read(sums.data(), memory, 32);
      self.expect(sums == std::vector<float>(8, 2), "two ones");
    }
    gpu.free(memory);
  });
}

TEST_P(DeviceCalls, FailOnAllRanksWhereACopyIsRefused) {
  run_to_failure(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const std::vector<float> ones(5000, 1);
    std::byte* memory = gpu.copy_of(ones.data(), 20000);
    if (self.rank() == 1) gpu.fail("cuMemcpyAsync", 0, 719);
    self.expect_code(banyan_allreduce(memory, memory, 5000, BANYAN_FLOAT32, BANYAN_SUM, comm),
                     BANYAN_ERR_CUDA, "allreduce");
    const std::string text = banyan_last_error(comm);
    const bool knows = GetParam() == Kind::kProcesses;  // threads have one driver
    self.expect(!knows || text.find("rank 1") != std::string::npos, text);
    self.expect(text.find("cuMemcpyAsync") != std::string::npos, text);
    gpu.free(memory);
  });
}

// Once it says nothing: what the host cannot read is taken for a GPU's.
TEST_P(DeviceCalls, FindMemoryThatTheDriverDoesNotName) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const std::vector<float> ones(8, 1);
    std::vector<float> sums(8);
    std::byte* memory = gpu.copy_of(ones.data(), 32);
    if (gpu.has_faults()) gpu.fail("cuPointerGetAttributes", 0, 700);
    self.expect_ok(banyan_allreduce(memory, memory, 8, BANYAN_FLOAT32, BANYAN_SUM, comm), "sum");
    gpu.read(sums.data(), memory, 32);
    self.expect(sums == std::vector<float>(8, 2), "two ones");
    gpu.free(memory);
  });
}

// It never says anything again, as after a kernel's illegal access.
TEST_P(DeviceCalls, FailOnAllRanksWhereTheDriverNamesNoMemory) {
  run_to_failure(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const std::vector<float> ones(5000, 1);
    std::byte* memory = gpu.copy_of(ones.data(), 20000);
    if (self.rank() == 1) gpu.fail("cuPointerGetAttributes", -1, 700);
    self.expect_code(banyan_allreduce(memory, memory, 5000, BANYAN_FLOAT32, BANYAN_SUM, comm),
                     BANYAN_ERR_CUDA, "allreduce");
    gpu.fail("cuPointerGetAttributes", 0, 0);
    const std::string text = banyan_last_error(comm);
    self.expect(
        text.find("cuPointerGetAttributes: CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, text);
    gpu.free(memory);
  });
}

// A model of three tensors, of which some lie on the GPU, and its reducer.
class DeviceModel {
 public:
  DeviceModel(Rank& self, banyan_comm_t comm) : self_(self) {
    constexpr size_t kCounts[] = {50000, 100, 700};
    std::vector<banyan_tensor_t> tensors;
    for (size_t t = 0; t < std::size(kCounts); ++t) {
      tensors.push_back({.size = sizeof(banyan_tensor_t),
                         .id = t,
                         .name = nullptr,
                         .count = kCounts[t],
                         .dimensions = 2,
                         .datatype = BANYAN_FLOAT32,
                         .compression = nullptr});
      host_.emplace_back(kCounts[t]);
    }
    on_gpu_.resize(host_.size());
    banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
    config.rules = "*=off";
    config.bucket_bytes = 64 << 10;  // the first tensor has four
    self_.expect_ok(banyan_reducer_create(comm, tensors.data(), tensors.size(), &config, &reducer_),
                    "create");
  }
  ~DeviceModel() {
    self_.expect_ok(banyan_reducer_destroy(reducer_), "destroy");
    for (std::byte* memory : on_gpu_)
      if (memory != nullptr) gpu_->free(memory);
  }
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  // Some of its tensors are there from now on. The GPU outlives the model.
  void move_to(RankGpu& gpu) {
    gpu_ = &gpu;
    for (size_t t = 0; t < host_.size(); ++t)
      if (t != 1) on_gpu_[t] = gpu.allocate(host_[t].size() * 4);
  }
  // The means of a step's gradients.
  const std::vector<std::vector<float>>& step(int number) {
    for (size_t t = 0; t < host_.size(); ++t) {
      std::mt19937 random(static_cast<unsigned>(100 * number + self_.rank()));
      std::normal_distribution<float> normal;
      for (float& value : host_[t]) value = normal(random);
      void* gradient = host_[t].data();
      if (on_gpu_[t] != nullptr) {
        gpu_->write_on(nullptr, on_gpu_[t], host_[t].data(), host_[t].size() * 4);
        gpu_->synchronize(nullptr);
        gradient = on_gpu_[t];
      }
      self_.expect_ok(banyan_reducer_ready(reducer_, t, gradient), "ready");
    }
    self_.expect_ok(banyan_reducer_wait(reducer_, BANYAN_ALL_TENSORS), "wait");
    for (size_t t = 0; t < host_.size(); ++t)
      if (on_gpu_[t] != nullptr) gpu_->read(host_[t].data(), on_gpu_[t], host_[t].size() * 4);
    return host_;
  }

 private:
  Rank& self_;
  RankGpu* gpu_ = nullptr;  // null: all tensors are on the host
  std::vector<std::vector<float>> host_;
  std::vector<std::byte*> on_gpu_;  // null: it is on the host
  banyan_reducer_t reducer_ = nullptr;
};

TEST_P(DeviceCalls, SumTheGradientsOfAReducerThatIsOlderThanTheDriver) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    std::optional<RankGpu> gpu;
    DeviceModel by_host(self, comm);
    DeviceModel model(self, comm);
    self.expect(model.step(0) == by_host.step(0), "on the host");
    if (!gpu.emplace(self).works()) return;
    model.move_to(*gpu);
    for (int number = 1; number < 4; ++number)
      self.expect(model.step(number) == by_host.step(number), fmt::format("step {}", number));
  });
}

// Known by its numbers, the call comes again with other memory, on one rank of two.
TEST_P(DeviceCalls, SumByACallThatIsOlderThanTheDriver) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCount = 5;
    const TemporaryFolder machine;
    std::filesystem::create_directories(machine.path() / "dev/nvidiactl");
    expect_devices(machine.path().string());
    std::vector<int> numbers(kCount, self.rank() + 1), sums(kCount);
    const auto sum = [&](const void* send, void* recv) {
      self.expect_ok(banyan_allreduce(send, recv, kCount, BANYAN_INT32, BANYAN_SUM, comm), "sum");
    };
    for (int call = 0; call < 3; ++call) sum(numbers.data(), sums.data());
    RankGpu gpu(self);
    if (!gpu.works()) return;
    std::byte* memory = gpu.copy_of(numbers.data(), kCount * sizeof(int));
    if (self.rank() == 0)
      sum(memory, memory);
    else
      sum(numbers.data(), sums.data());
    if (self.rank() == 0) gpu.read(sums.data(), memory, kCount * sizeof(int));
    self.expect(sums == std::vector<int>(kCount, 3), "the sums");
    gpu.free(memory);
  });
}

// A sum on a stream: what is enqueued before it is its input, and what is behind it sees the sum.
class OnStream {
 public:
  OnStream(Rank& self, banyan_comm_t comm, RankGpu& gpu, size_t count, bool in_place = true)
      : gpu_(gpu),
        count_(count),
        stream_(gpu.make_stream()),
        given_(static_cast<int*>(gpu.allocate_pinned(count * sizeof(int)))),
        got_(static_cast<int*>(gpu.allocate_pinned(count * sizeof(int)))),
        memory_(gpu.allocate(count * sizeof(int))),
        sums_(in_place ? memory_ : gpu.allocate(count * sizeof(int))) {
    banyan_call_t call = BANYAN_CALL_INIT;
    call.send = memory_;
    call.recv = sums_;
    call.count = count;
    call.datatype = BANYAN_INT32;
    call.on_stream = 1;
    call.stream = stream_;
    works_ = self.expect_ok(banyan_request_create(comm, &call, &request_), "create");
  }
  ~OnStream() {
    if (request_ != nullptr) (void)banyan_request_destroy(request_);
    gpu_.destroy_stream(stream_);
    if (sums_ != memory_) gpu_.free(sums_);
    gpu_.free(memory_);
    gpu_.free_pinned(given_);
    gpu_.free_pinned(got_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

  bool works() const { return works_; }
  void* stream() const { return stream_; }
  banyan_request_t request() const { return request_; }
  void enqueue_input(int value) {
    std::fill(given_, given_ + count_, value);
    gpu_.write_on(stream_, memory_, given_, count_ * sizeof(int));
  }
  void enqueue_output() { gpu_.read_on(stream_, got_, sums_, count_ * sizeof(int)); }
  bool got(int value) const {
    return std::all_of(got_, got_ + count_, [value](int each) { return each == value; });
  }

 private:
  RankGpu& gpu_;
  size_t count_;
  void* stream_;
  int* given_;
  int* got_;
  std::byte* memory_;
  std::byte* sums_;
  banyan_request_t request_ = nullptr;
  bool works_ = false;
};

TEST_P(DeviceCalls, AreOrderedByTheirStream) {
  run_on_gpus(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnStream sum(self, comm, gpu, 10000);
    if (!sum.works()) return;
    for (int round = 0; round < 20; ++round) {
      sum.enqueue_input(round * 10 + self.rank());
      if (!self.expect_ok(banyan_request_start(sum.request()), "start")) return;
      sum.enqueue_output();
      gpu.synchronize(sum.stream());
      if (!self.expect(sum.got(round * 30 + 3), "the sum, behind the call")) return;
      // Whoever has waited for the stream need not wait again.
      if (round % 2 == 0) self.expect_ok(banyan_request_wait(sum.request()), "wait");
    }
  });
}

// A rank alone has nobody to wait for, but its stream.
TEST_P(DeviceCalls, OfARankAloneGoOnByThemselves) {
  run_on_gpus(1, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnStream sum(self, comm, gpu, 1000, false);
    if (!sum.works()) return;
    for (int round = 0; round < 5; ++round) {
      StreamHold held;
      gpu.hold(sum.stream(), held);
      sum.enqueue_input(round);
      if (!self.expect_ok(banyan_request_start(sum.request()), "start")) return;
      sum.enqueue_output();
      held.release();
      gpu.synchronize(sum.stream());
      self.expect(sum.got(round), "what it gave");
    }
  });
}

// Nobody calls anything between the starts and the streams' ends.
TEST_P(DeviceCalls, OnSeveralStreamsGoOnByThemselves) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnStream first(self, comm, gpu, 70000), second(self, comm, gpu, 100), third(self, comm, gpu, 1);
    OnStream* const sums[] = {&first, &second, &third};
    for (int round = 0; round < 10; ++round) {
      for (int which = 0; which < 3; ++which) {
        OnStream& sum = *sums[which];
        sum.enqueue_input(round + which);
        if (!self.expect_ok(banyan_request_start(sum.request()), "start")) return;
        sum.enqueue_output();
      }
      for (int which = 2; which >= 0; --which) {
        gpu.synchronize(sums[which]->stream());
        self.expect(sums[which]->got(2 * (round + which)), "the sum");
        self.expect_ok(banyan_request_wait(sums[which]->request()), "wait");
      }
    }
  });
}

// As PyTorch's backend makes them. The driver may wait for all streams where memory is had or
// freed.
TEST_P(DeviceCalls, MadeAnewTakeWhatFormerOnesHad) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    void* stream = gpu.make_stream();
    std::byte* memory = gpu.allocate(100 * sizeof(int));
    const auto sum_anew = [&] {
      banyan_request_t request = nullptr;
      banyan_call_t call = BANYAN_CALL_INIT;
      call.send = call.recv = memory;
      call.count = 100;
      call.datatype = BANYAN_INT32;
      call.on_stream = 1;
      call.stream = stream;
      self.expect_ok(banyan_request_create(comm, &call, &request), "create");
      self.expect_ok(banyan_request_start(request), "start");
      self.expect_ok(banyan_request_wait(request), "wait");
      self.expect_ok(banyan_request_destroy(request), "destroy");
      gpu.synchronize(stream);
    };
    const auto had = [&] {
      return gpu.calls("cuMemHostAlloc") + gpu.calls("cuMemFreeHost") + gpu.calls("cuEventCreate");
    };
    for (int round = 0; round < 3; ++round) sum_anew();
    self.expect_ok(banyan_barrier(comm), "barrier");
    const long before = gpu.has_faults() ? had() : 0;
    for (int round = 0; round < 20; ++round) sum_anew();
    if (gpu.has_faults()) self.expect(had() == before, "nothing is had or freed");
    self.expect_ok(banyan_barrier(comm), "barrier");
    gpu.destroy_stream(stream);
    gpu.free(memory);
  });
}

// The call does not begin before its stream is there, and its start returns all the same.
TEST_P(DeviceCalls, WaitForTheirStream) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnStream sum(self, comm, gpu, 100);
    if (!sum.works()) return;
    sum.enqueue_input(1);
    const bool late = self.rank() == 0;
    StreamHold held;
    if (late) {
      gpu.synchronize(sum.stream());  // what is given is read
      gpu.hold(sum.stream(), held);
      sum.enqueue_input(5);
    }
    self.expect_ok(banyan_request_start(sum.request()), "start");
    sum.enqueue_output();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    int done = 1;
    self.expect_ok(banyan_request_test(sum.request(), &done), "test");
    if (late) {  // the others may be here when it has gone on
      self.expect(done == 0, "not before its stream");
      held.release();
    }
    gpu.synchronize(sum.stream());
    self.expect(sum.got(6), "five and one");
    self.expect_ok(banyan_request_wait(sum.request()), "wait");
  });
}

// Whatever becomes of a call, its stream goes on.
TEST_P(DeviceCalls, LetTheirStreamGoAfterAnAbort) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    RankGpu gpu(self);
    if (!gpu.works()) return;
    {
      OnStream sum(self, comm, gpu, 100);
      if (!sum.works()) return;
      sum.enqueue_input(1);
      if (self.rank() == 0) {
        self.expect_ok(banyan_request_start(sum.request()), "start");
        gpu.wait_for_host(sum.stream());
        const TimePoint begin = Clock::now();
        banyan_comm_abort(comm);
        gpu.synchronize(sum.stream());
        self.expect(seconds_since(begin) < 1 * time_factor(), "the stream goes on soon");
        banyan_result_t error = BANYAN_SUCCESS;
        self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
        self.expect(error == BANYAN_ERR_ABORTED, "aborted");
      } else {
        self.expect(wait_for_error(self, comm) != BANYAN_SUCCESS, "told");
      }
    }
    banyan_comm_destroy(comm);
  });
}

TEST_P(DeviceCalls, LeaveACaptureAsItIs) {
  run_on_gpus(1, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnStream sum(self, comm, gpu, 100);
    if (!sum.works()) return;
    if (!gpu.begin_capture(sum.stream())) return;
    self.expect_code(banyan_request_start(sum.request()), BANYAN_ERR_INVALID_USAGE, "captured");
    self.expect(std::strstr(banyan_last_error(comm), "captured") != nullptr, "says so");
    self.expect(gpu.end_capture(sum.stream()), "the capture is whole");
    sum.enqueue_input(3);
    self.expect_ok(banyan_request_start(sum.request()), "start");
    sum.enqueue_output();
    gpu.synchronize(sum.stream());
    self.expect(sum.got(3), "the sum");
    self.expect_ok(banyan_request_wait(sum.request()), "wait");
  });
}

// Processes first: what forks them must not have opened the driver.
INSTANTIATE_TEST_SUITE_P(Kinds, DeviceCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

}  // namespace
}  // namespace banyan::test::device_test
