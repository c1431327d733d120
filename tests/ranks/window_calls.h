// Calls of ranks that may read each other's memory of GPUs.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>

#include "compression/cuda/image.h"
#include "tests/ranks/device_vectors.h"

namespace banyan::test {

inline constexpr size_t kLeast = 16384;  // float32 that have as many bytes as a call by windows has

class WindowCalls : public WithWindows {
 protected:
  void SetUp() override {
    if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
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

}  // namespace banyan::test
