// Calls of ranks that may read each other's memory of GPUs.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compression/cuda/image.h"
#include "src/c_api/inspect.h"
#include "tests/ranks/device_fixture.h"
#include "tests/ranks/ranks_cases.h"

namespace banyan::test {

inline constexpr size_t kLeast = 16384;  // float32 that have as many bytes as a call by windows has

class WindowCalls : public WithRanks {
 protected:
  void SetUp() override {
    if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  }
  // Every rank has loaded the driver before it meets the others.
  static void run_with_windows(int size,
                               const std::function<void(Rank&, banyan_comm_t, RankGpu&)>& body,
                               JobOptions options = {.limit_s = 60}) {
    run(
        size,
        [&](Rank& self) {
          RankGpu gpu(self);
          banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
          if (comm == nullptr) return;
          body(self, comm, gpu);
          self.leave(comm);
        },
        std::move(options));
  }
  // One of three is killed after so many calls, when it may be anywhere, and the others hear of it.
  // What `prepare` does it does in each, before it meets the others.
  static void kill_one(uint64_t random, int calls, const std::function<void(RankGpu&)>& prepare) {
    const int victim = static_cast<int>(random % 3);
    Job job(GetParam(), 3, [&](Rank& self) {
      RankGpu gpu(self);
      if (!gpu.works()) return;
      prepare(gpu);
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      std::byte* const memory = gpu.allocate(300000 * sizeof(float));
      banyan_result_t result = BANYAN_SUCCESS;
      for (int call = 0; result == BANYAN_SUCCESS; ++call) {
        result = banyan_allreduce(memory, memory, 300000, BANYAN_FLOAT32, BANYAN_MAX, comm);
        if (call == calls) self.mark(1);
      }
      self.report(comm, result);
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
      gpu.free(memory);
    });
    ASSERT_TRUE(job.wait_for_marks(1, 20 * time_factor()));
    job.wait(static_cast<double>(random >> 40 & 0x3FFF) * 1e-6);
    job.signal(victim, SIGKILL);
    job.finish();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
      EXPECT_EQ(job.outcome(rank).failed_rank, victim);
    }
  }
};

inline uint64_t windows_of(Rank& self, banyan_comm_t comm) {
  const Result<uint64_t> calls = calls_by_windows(comm);
  self.expect(calls.ok(), "calls_by_windows");
  return calls.ok() ? *calls : 0;
}

// A vector of this rank, on its GPU or not.
class Vector {
 public:
  Vector(RankGpu& gpu, size_t count, bool on_gpu) : gpu_(gpu), host_(count) {
    if (on_gpu) memory_ = gpu.allocate(count * sizeof(float));
  }
  ~Vector() {
    if (memory_ != nullptr) gpu_.free(memory_);
  }
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;

  void* data() { return memory_ != nullptr ? static_cast<void*>(memory_) : host_.data(); }
  void fill(int rank, int salt) {
    for (size_t i = 0; i < host_.size(); ++i)
      host_[i] = static_cast<float>(mix(i * 16 + static_cast<size_t>(rank) * 7919 +
                                        static_cast<size_t>(salt) * 104729) %
                                    1000) /
                 7;
    if (memory_ == nullptr) return;
    gpu_.write_on(nullptr, memory_, host_.data(), host_.size() * sizeof(float));
    gpu_.synchronize(nullptr);
  }
  const std::vector<float>& values() {
    if (memory_ != nullptr) gpu_.read(host_.data(), memory_, host_.size() * sizeof(float));
    return host_;
  }

 private:
  RankGpu& gpu_;
  std::vector<float> host_;
  std::byte* memory_ = nullptr;
};

// In the order of ranks.
inline std::vector<float> sum_of(RankGpu& gpu, int ranks, size_t count, int salt) {
  std::vector<float> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    Vector given(gpu, count, false);
    given.fill(rank, salt);
    const std::vector<float>& values = given.values();
    for (size_t i = 0; i < count; ++i) sum[i] = rank == 0 ? values[i] : sum[i] + values[i];
  }
  return sum;
}

inline bool add_up(Rank& self, banyan_comm_t comm, RankGpu& gpu, Vector& vector, size_t count,
                   int salt) {
  vector.fill(self.rank(), salt);
  const banyan_result_t result =
      banyan_allreduce(vector.data(), vector.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm);
  if (!self.expect_ok(result, fmt::format("allreduce {}", salt))) return false;
  return self.expect(vector.values() == sum_of(gpu, self.size(), count, salt),
                     fmt::format("sum {} of {}", salt, count));
}

}  // namespace banyan::test
