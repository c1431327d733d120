// Sums by codecs on memory of a GPU, which encodes and decodes by itself where there are kernels.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "compression/cuda/image.h"
#include "tests/ranks/device_fixture.h"
#include "tests/ranks/ranks_cases.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::device_codecs_test {
namespace {

class DeviceCodecCalls : public WithGpus {};

// Sums by codecs are those of the host, and where there are kernels, only messages go to the host.
TEST_P(DeviceCodecCalls, AreThoseOfTheHost) {
  constexpr size_t kCount = 100000;
  run_on_gpus(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    std::vector<float> given(kCount), of_host(kCount), of_gpu(kCount);
    for (size_t i = 0; i < kCount; ++i)
      given[i] = static_cast<float>((i * 7 + static_cast<size_t>(self.rank())) % 1000) / 500 - 1;
    for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG})
      for (const char* name :
           {"int8", "int4", "e4m3", "e5m2", "fp16", "bf16", "dyn8", "topk:0.01", "topk:0.01:resel",
            "threshold:0.9", "threshold:0.999:fp16", "threshold:0.001", "sign:0.9", "onebit"})
        for (const bool in_place : {false, true}) {
          banyan_compression_t codec = BANYAN_COMPRESSION_INIT;
          codec.fidelity = BANYAN_CODEC;
          codec.codec = name;
          std::byte* send = gpu.copy_of(given.data(), kCount * sizeof(float));
          std::byte* recv = in_place ? send : gpu.copy_of(given.data(), kCount * sizeof(float));
          banyan_call_t call = call_of([&](banyan_call_t& made) {
            made.send = given.data();
            made.recv = of_host.data();
            made.count = kCount;
            made.op = op;
            made.compression = &codec;
          });
          self.expect_ok(call_request(call, comm), "by the host");
          call.send = send;
          call.recv = recv;
          const long copies = gpu.has_faults() ? gpu.calls("cuMemcpyAsync") : 0;
          const long kernels = gpu.has_faults() ? gpu.calls("cuLaunchKernel") : 0;
          self.expect_ok(call_request(call, comm), "by the GPU");
          const bool there = cuda_image().fatbin != nullptr;
          // Who selects again from sums does so on the host.
          const bool reselects = std::string_view(name).ends_with(":resel");
          if (gpu.has_faults() && GetParam() == Kind::kProcesses && !reselects) {
            self.expect((gpu.calls("cuLaunchKernel") > kernels) == there, "a GPU encodes");
            self.expect((gpu.calls("cuMemcpyAsync") > copies) != there, "or its memory is copied");
          }
          gpu.read(of_gpu.data(), recv, kCount * sizeof(float));
          self.expect(of_gpu == of_host, fmt::format("the same bits by {}", name));
          gpu.free(send);
          if (!in_place) gpu.free(recv);
        }
  });
}

// What randk says goes by the number of the call, too: so host and GPU have a communicator each.
TEST_P(DeviceCodecCalls, ChooseWhatTheHostChooses) {
  constexpr size_t kCount = 30000;
  run_on_gpus(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    std::vector<float> given(kCount), of_host(kCount), of_gpu(kCount);
    for (size_t i = 0; i < kCount; ++i)
      given[i] = static_cast<float>((i * 7 + static_cast<size_t>(self.rank())) % 1000) / 500 - 1;
    for (const char* name : {"randk:0.01", "randk:0.7:fp16"}) {
      banyan_compression_t codec = BANYAN_COMPRESSION_INIT;
      codec.fidelity = BANYAN_CODEC;
      codec.codec = name;
      banyan_call_t call = call_of([&](banyan_call_t& made) {
        made.send = given.data();
        made.recv = of_host.data();
        made.count = kCount;
        made.compression = &codec;
      });
      std::byte* memory = gpu.copy_of(given.data(), kCount * sizeof(float));
      for (const bool on_gpu : {false, true}) {
        banyan_comm_t child = nullptr;
        self.expect_ok(banyan_comm_split(comm, 0, self.rank(), &child, nullptr), "split");
        if (on_gpu) call.send = call.recv = memory;
        const long kernels = gpu.has_faults() ? gpu.calls("cuLaunchKernel") : 0;
        self.expect_ok(call_request(call, child), name);
        if (on_gpu && gpu.has_faults() && GetParam() == Kind::kProcesses)
          self.expect((gpu.calls("cuLaunchKernel") > kernels) == (cuda_image().fatbin != nullptr),
                      "a GPU chooses");
        self.expect_ok(banyan_comm_finalize(child), "finalize");
        self.expect_ok(banyan_comm_destroy(child), "destroy");
      }
      gpu.read(of_gpu.data(), memory, kCount * sizeof(float));
      self.expect(of_gpu == of_host, name);
      gpu.free(memory);
    }
  });
}

banyan_result_t sum_by_int8(std::byte* send, std::byte* recv, size_t count, banyan_comm_t comm) {
  banyan_compression_t codec = BANYAN_COMPRESSION_INIT;
  codec.fidelity = BANYAN_CODEC;
  codec.codec = "int8";
  return call_request(call_of([&](banyan_call_t& made) {
                        made.send = send;
                        made.recv = recv;
                        made.count = count;
                        made.compression = &codec;
                      }),
                      comm);
}

// The rank whose driver has no code for its GPU lets the host encode, and meets the others.
TEST_P(DeviceCodecCalls, AreMadeByTheHostWhereAGpuHasNoKernels) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    if (!gpu.has_faults()) return;
    std::vector<float> values(5000, 1);
    std::byte* memory = gpu.copy_of(values.data(), 20000);
    if (self.rank() == 1) gpu.fail("cuModuleLoadData", 0, 209);
    for (int round = 0; round < 2; ++round)
      self.expect_ok(sum_by_int8(memory, memory, values.size(), comm), "allreduce");
    gpu.read(values.data(), memory, 20000);
    self.expect(std::all_of(values.begin(), values.end(), [](float sum) { return sum == 4; }),
                "four ones");
    gpu.free(memory);
  });
}

// Whoever wonders why a call is slow finds it in the log.
TEST_P(DeviceCodecCalls, SayOnceWhyTheHostEncodes) {
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log";
  run_on_gpus(
      2,
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!gpu.has_faults()) return;
        std::byte* memory = gpu.allocate(20000);
        if (self.rank() == 1) gpu.fail("cuModuleLoadData", 0, 999);
        for (const size_t count : {5000, 4000})
          self.expect_ok(sum_by_int8(memory, memory, count, comm), "allreduce");
        gpu.free(memory);
        self.meet();
        const std::string text = text_of(log);
        const std::string_view said = "the host encodes for a GPU: ";
        const size_t found = text.find(said);
        self.expect(found != std::string::npos && text.find(said, found + 1) == std::string::npos,
                    text);
        self.expect(text.find("cuModuleLoadData", found) != std::string::npos, text);
      },
      {.limit_s = 60, .environment = {{"BANYAN_DEBUG", "info"}, {"BANYAN_DEBUG_FILE", log}}});
}

TEST_P(DeviceCodecCalls, FailOnAllRanksWhereAKernelIsRefused) {
  if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  run_to_failure(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const std::vector<float> ones(5000, 1);
    std::byte* memory = gpu.copy_of(ones.data(), 20000);
    if (self.rank() == 1) gpu.fail("cuLaunchKernel", 0, 719);
    self.expect_code(sum_by_int8(memory, memory, ones.size(), comm), BANYAN_ERR_CUDA, "allreduce");
    const std::string text = banyan_last_error(comm);
    self.expect(text.find("cuLaunchKernel") != std::string::npos, text);
    gpu.free(memory);
  });
}

// No kernel reaches for memory of another device.
TEST_P(DeviceCodecCalls, TakeBuffersOfTwoDevices) {
  run_on_gpus(2, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const CudaFunctions& cuda = gpu.driver();
    int devices = 0;
    if (cuda.device_count(&devices) != kCudaSuccess || devices < 2) return;
    const std::vector<float> ones(5000, 1);
    std::byte* here = gpu.copy_of(ones.data(), 20000);
    CudaFunctions::Handle own = nullptr, other = nullptr;
    const int elsewhere = (self.rank() + 1) % devices;
    self.expect(cuda.current_context(&own) == kCudaSuccess &&
                    cuda.retain_context(&other, elsewhere) == kCudaSuccess &&
                    cuda.set_context(other) == kCudaSuccess,
                "the other device");
    std::byte* there = gpu.copy_of(ones.data(), 20000);
    self.expect_ok(sum_by_int8(here, there, ones.size(), comm), "allreduce");
    std::vector<float> sums(5000);
    gpu.read(sums.data(), there, 20000);
    self.expect(std::all_of(sums.begin(), sums.end(), [](float sum) { return sum == 2; }),
                "two ones");
    gpu.free(there);
    self.expect(cuda.set_context(own) == kCudaSuccess, "back");
    (void)cuda.release_context(elsewhere);
    gpu.free(here);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceCodecCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

}  // namespace
}  // namespace banyan::test::device_codecs_test
