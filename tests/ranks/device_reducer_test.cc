// A reducer whose gradients lie on GPUs leaves those of exact buckets there: they are gathered
// there, and summed by the way of calls on such memory.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "compression/cuda/image.h"
#include "tests/ranks/device_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::device_reducer_test {
namespace {

constexpr size_t kCounts[] = {40'000, 30'001, 90'000};

class DeviceReducers : public WithGpus {
 protected:
  static float gradient(int rank, size_t tensor, size_t i, int step) {
    return static_cast<float>(
        mix(i * 16 + static_cast<size_t>(rank) + tensor * 7919 + static_cast<size_t>(step) * 31) %
        1000);
  }
  // The first two tensors have a bucket in common, and the last one has its own.
  static banyan_reducer_t make(Rank& self, banyan_comm_t comm) {
    std::vector<banyan_tensor_t> tensors;
    for (size_t tensor = 0; tensor < std::size(kCounts); ++tensor)
      tensors.push_back({.size = sizeof(banyan_tensor_t),
                         .id = tensor,
                         .name = nullptr,
                         .count = kCounts[tensor],
                         .dimensions = 1,
                         .datatype = BANYAN_FLOAT32,
                         .compression = nullptr});
    banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
    config.rules = "*=off";
    config.bucket_bytes = size_t{300} << 10;
    banyan_reducer_t reducer = nullptr;
    self.expect_ok(banyan_reducer_create(comm, tensors.data(), tensors.size(), &config, &reducer),
                   "create");
    return reducer;
  }
  // Returns what the last call said. Sums are whole numbers, and so are their means of two.
  static banyan_result_t step(
      Rank& self, banyan_reducer_t reducer, RankGpu& gpu, int number, bool all_there,
      const std::function<void()>& before_ready = [] {}) {
    std::vector<std::vector<float>> host;
    std::vector<std::byte*> there;
    for (size_t tensor = 0; tensor < std::size(kCounts); ++tensor) {
      std::vector<float>& values = host.emplace_back(kCounts[tensor]);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = gradient(self.rank(), tensor, i, number);
      const bool on_gpu = all_there || tensor != 0 || self.rank() != 1;
      there.push_back(on_gpu ? gpu.copy_of(values.data(), values.size() * sizeof(float)) : nullptr);
    }
    before_ready();
    for (size_t tensor = 0; tensor < std::size(kCounts); ++tensor) {
      void* address = there[tensor];
      if (address == nullptr) address = host[tensor].data();
      (void)banyan_reducer_ready(reducer, tensor, address);
    }
    const banyan_result_t result = banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS);
    for (size_t tensor = 0; tensor < std::size(kCounts); ++tensor) {
      std::vector<float>& values = host[tensor];
      if (there[tensor] != nullptr) {
        gpu.read(values.data(), there[tensor], values.size() * sizeof(float));
        gpu.free(there[tensor]);
      }
      bool right = true;
      for (size_t i = 0; i < values.size(); ++i)
        right = right &&
                values[i] == (gradient(0, tensor, i, number) + gradient(1, tensor, i, number)) / 2;
      self.expect(right || result != BANYAN_SUCCESS,
                  fmt::format("tensor {} in step {}", tensor, number));
    }
    return result;
  }
};

TEST_P(DeviceReducers, GoByWindows) {
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log";
  run(2,
      [&](Rank& self) {
        RankGpu gpu(self);  // before the ranks meet
        banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
        if (comm == nullptr) return;
        banyan_reducer_t reducer = make(self, comm);
        for (int number = 0; number < 4; ++number)
          self.expect_ok(step(self, reducer, gpu, number, true), "step");
        self.meet();
        self.expect(text_of(log).find("from this call on, ranks read each other's memory") !=
                        std::string::npos,
                    "by windows");
        self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
        self.leave(comm);
      },
      {.limit_s = 60, .environment = {{"BANYAN_DEBUG", "info"}, {"BANYAN_DEBUG_FILE", log}}});
}

// One rank has a tensor on the host, in some steps.
TEST_P(DeviceReducers, MixWithGradientsOfTheHost) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    banyan_reducer_t reducer = make(self, comm);
    for (int number = 0; number < 6; ++number)
      self.expect_ok(step(self, reducer, gpu, number, number % 2 == 0), "step");
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  });
}

// A bucket that has no memory there goes by the host, on that rank alone.
TEST_P(DeviceReducers, GoByTheHostWhereADeviceHasNoMemoryLeft) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads have one driver";
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    if (!gpu.has_faults()) return;
    banyan_reducer_t reducer = make(self, comm);
    const auto refuse = [&] {
      self.meet();
      if (self.rank() == 1) gpu.fail("cuMemAlloc", 1, 2);
    };
    self.expect_ok(step(self, reducer, gpu, 0, true, refuse), "wait");
    self.expect_ok(step(self, reducer, gpu, 1, true), "wait");
    self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  });
}

// Where it cannot be reached any more, all ranks hear of it.
TEST_P(DeviceReducers, FailWhereADeviceIsLost) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads have one driver";
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  run_to_failure(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    banyan_reducer_t reducer = make(self, comm);
    const auto refuse = [&] {
      self.meet();
      if (self.rank() == 1) gpu.fail("cuStreamSynchronize", 1, 700);
    };
    self.expect_code(step(self, reducer, gpu, 0, true, refuse), BANYAN_ERR_CUDA, "wait");
    const std::string text = banyan_last_error(comm);
    self.expect(text.find("rank 1 cannot reach the memory of a GPU: cuStreamSynchronize") !=
                    std::string::npos,
                text);
    (void)banyan_reducer_destroy(reducer);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceReducers, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::device_reducer_test
