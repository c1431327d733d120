// A reducer whose gradients lie on GPUs does there what one on the host does: after each step, sums
// and what is kept are the same bits.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "compression/cuda/image.h"
#include "compression/kernels.h"
#include "tests/ranks/device_fixture.h"
#include "tests/ranks/hosted_sums.h"
#include "tests/ranks/ranks_values.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::device_coded_reducer_test {
namespace {

struct Layer {
  banyan_datatype_t type;
  size_t count;
};
// The first three have a bucket in common where their codec lets them.
constexpr Layer kLayers[] = {{BANYAN_FLOAT32, 4'001},
                             {BANYAN_BFLOAT16, 5'000},
                             {BANYAN_FLOAT16, 300},
                             {BANYAN_FLOAT32, 90'000}};

struct Way {
  const char* rules;
  double momentum = 0;
  double clip_norm = 0;
  bool feedback = true;
  bool not_finite = false;  // in a step
  size_t bucket_bytes = size_t{200} << 10;
  const banyan_compression_t* compression = nullptr;  // before the rules
};

struct CodedReducers {
  static banyan_reducer_t make(Rank& self, banyan_comm_t comm, const Way& way) {
    std::vector<banyan_tensor_t> tensors;
    for (size_t tensor = 0; tensor < std::size(kLayers); ++tensor)
      tensors.push_back({.size = sizeof(banyan_tensor_t),
                         .id = tensor,
                         .name = nullptr,
                         .count = kLayers[tensor].count,
                         .dimensions = 2,
                         .datatype = kLayers[tensor].type,
                         .compression = way.compression});
    banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
    config.rules = way.rules;
    config.bucket_bytes = way.bucket_bytes;
    config.momentum = way.momentum;
    config.clip_norm = way.clip_norm;
    config.error_feedback = way.feedback ? 1 : 0;
    banyan_reducer_t reducer = nullptr;
    self.expect_ok(banyan_reducer_create(comm, tensors.data(), tensors.size(), &config, &reducer),
                   way.rules);
    return reducer;
  }

  static std::vector<std::byte> gradient(const Way& way, int rank, size_t tensor, int step) {
    const Layer& layer = kLayers[tensor];
    std::vector<float> values(layer.count);
    for (size_t i = 0; i < layer.count; ++i) {
      const size_t drawn =
          mix(i * 16 + static_cast<size_t>(rank) + tensor * 7919 + static_cast<size_t>(step) * 31);
      // Eighths, whose squares have exact sums; some are much larger.
      values[i] = static_cast<float>(static_cast<int>(drawn % 64) - 32) / 8;
      if (drawn % 50 == 7) values[i] *= 16;
    }
    if (way.not_finite && step == 1 && tensor == 3 && rank == 1) values[17] = INFINITY;
    const auto type = static_cast<size_t>(layer.type);
    std::vector<std::byte> bytes(layer.count * size_of(static_cast<DataType>(layer.type)));
    best_kernels().encode[type](bytes.data(), values.data(), layer.count, 1);
    return bytes;
  }

  // The sums of a step, tensor by tensor.
  static std::vector<std::vector<std::byte>> step(
      Rank& self, banyan_reducer_t reducer, const Way& way, int number, RankGpu* gpu,
      const std::function<void()>& before_ready = [] {}) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::byte*> there;
    for (size_t tensor = 0; tensor < std::size(kLayers); ++tensor) {
      bytes.push_back(gradient(way, self.rank(), tensor, number));
      there.push_back(gpu == nullptr ? nullptr
                                     : gpu->copy_of(bytes.back().data(), bytes.back().size()));
    }
    before_ready();
    for (size_t tensor = 0; tensor < std::size(kLayers); ++tensor) {
      void* address = gpu == nullptr ? bytes[tensor].data() : there[tensor];
      self.expect_ok(banyan_reducer_ready(reducer, tensor, address), "ready");
    }
    self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), way.rules);
    for (size_t tensor = 0; gpu != nullptr && tensor < std::size(kLayers); ++tensor) {
      gpu->read(bytes[tensor].data(), there[tensor], bytes[tensor].size());
      gpu->free(there[tensor]);
    }
    return bytes;
  }

  static std::vector<std::byte> saved(Rank& self, banyan_reducer_t reducer) {
    size_t bytes = 0;
    self.expect_ok(banyan_reducer_save(reducer, nullptr, &bytes), "how long");
    std::vector<std::byte> blob(bytes);
    self.expect_ok(banyan_reducer_save(reducer, blob.data(), &bytes), "save");
    return blob;
  }

  static void expect_alike(Rank& self, banyan_reducer_t here, banyan_reducer_t there,
                           const std::string& what) {
    banyan_tensor_stats_t of_host = {}, of_gpu = {};
    of_host.size = of_gpu.size = sizeof of_host;
    self.expect_ok(banyan_reducer_stats(here, BANYAN_ALL_TENSORS, &of_host), "stats");
    self.expect_ok(banyan_reducer_stats(there, BANYAN_ALL_TENSORS, &of_gpu), "stats");
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(a); };
    self.expect(of_host.nonfinite == of_gpu.nonfinite, what + ": not finite");
    self.expect(near(of_host.error_nmse, of_gpu.error_nmse), what + ": error");
    self.expect(near(of_host.residual_norm, of_gpu.residual_norm), what + ": residual");
  }

  // In some steps a rank has its gradients on the host.
  static void compare(Rank& self, banyan_comm_t comm, RankGpu& gpu, const Way& way) {
    banyan_reducer_t here = make(self, comm, way);
    banyan_reducer_t there = make(self, comm, way);
    for (int number = 0; number < 5; ++number) {
      const bool on_host = number == 3 && self.rank() == 1;
      const auto wanted = step(self, here, way, number, nullptr);
      const auto got = step(self, there, way, number, on_host ? nullptr : &gpu);
      const std::string what = fmt::format("{}, step {}", way.rules, number);
      self.expect(got == wanted || (way.not_finite && number == 1), what);
      expect_alike(self, here, there, what);
      if (number % 2 == 1)
        self.expect(saved(self, here) == saved(self, there), what + ": what is kept");
    }
    self.expect_ok(banyan_reducer_destroy(here), "destroy");
    self.expect_ok(banyan_reducer_destroy(there), "destroy");
  }
};

class CodedDeviceReducers : public WithGpus, protected CodedReducers {};

TEST_P(CodedDeviceReducers, DoWhatThoseOfTheHostDo) {
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  run_on_gpus(
      2,
      [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        banyan_compression_t bound = BANYAN_COMPRESSION_INIT;
        bound.fidelity = BANYAN_BOUND_RELATIVE;
        bound.bound = 0.01;
        size_t turn = 0;
        for (const Way& way :
             {Way{"*=int8"}, Way{"*=int4"}, Way{"*=e4m3"}, Way{"*=e5m2"}, Way{"*=int8+sr"},
              Way{"*=dyn8"}, Way{"*=fp16"}, Way{"*=bf16"}, Way{"*=onebit"}, Way{"*=topk:0.05", 0.9},
              Way{"*=threshold:3", 0.5, 7}, Way{"*=randk:0.1"}, Way{"*=sign:2", 0.9},
              Way{"*=int8", 0, 0, false}, Way{"0=topk:0.02;1=off;3=off;*=int8", 0.9, 100},
              Way{"*=int8", 0, 0, true, true}, Way{.rules = "*=off", .compression = &bound}}) {
          if (kThreadSanitizer && ++turn % 3 != 0) continue;  // threads do the same for the others
          compare(self, comm, gpu, way);
        }
      },
      {.limit_s = 120});
}

// What is left has no place there.
TEST_P(CodedDeviceReducers, GoByTheHostWhereADeviceHasNoMemoryLeft) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads have one driver";
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    if (!gpu.has_faults()) return;
    const Way way{"*=int8"};
    banyan_reducer_t here = make(self, comm, way);
    banyan_reducer_t there = make(self, comm, way);
    for (int number = 0; number < 3; ++number) {
      const auto wanted = step(self, here, way, number, nullptr);
      const auto refuse = [&] {
        self.meet();
        if (self.rank() == 1 && number == 0) gpu.fail("cuMemAlloc", 1, 2);
      };
      self.expect(step(self, there, way, number, &gpu, refuse) == wanted,
                  fmt::format("step {}", number));
    }
    self.expect_ok(banyan_reducer_destroy(here), "destroy");
    self.expect_ok(banyan_reducer_destroy(there), "destroy");
  });
}

class CodedReducersOnHosts : public OnTwoHosts, protected CodedReducers {};

// Exact inside hosts, where ranks read each other's memory, and by a codec between them.
TEST_P(CodedReducersOnHosts, DoWhatThoseOfTheHostDo) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1, 1}, {0, 1, 0}}) {
    const TemporaryFolder folder;
    const std::string log = folder.path() / "log";
    run_on(hosts,
           [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
             for (Way way : {Way{"*=inter=int8"}, Way{"*=inter=topk:0.05", 0.9},
                             Way{"*=intra=int8,inter=int4"}}) {
               way.bucket_bytes = size_t{1} << 20;
               compare(self, comm, gpu, way);
             }
             self.meet();
             self.expect(text_of(log).find("ranks read each other's memory") != std::string::npos,
                         "by windows");
           },
           {{"BANYAN_ALGO", "hierarchical"}, {"BANYAN_DEBUG", "info"}, {"BANYAN_DEBUG_FILE", log}});
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CodedDeviceReducers,
                         testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Kinds, CodedReducersOnHosts, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::device_coded_reducer_test
