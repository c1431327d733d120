// What a rank of another process lends for a window is looked at before anything is read there, and
// memory of the host is no GPU's, whatever the driver knows of it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "src/c_api/inspect.h"
#include "src/cuda/windows.h"
#include "tests/ranks/device_fixture.h"

namespace banyan::test::lent_windows_test {
namespace {

class LentWindows : public WithRanks {};

// Rank 1 lends so many bytes and says that they are a window; rank 0 hears it twice.
TEST_P(LentWindows, HaveTheLengthOfAWindow) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads open no handles";
  for (const bool whole : {false, true})
    run(2, [whole](Rank& self) {
      RankGpu gpu(self);
      if (!gpu.works()) return;
      OpenGpu open(gpu.driver());
      if (!self.expect(open.open(0).ok(), "the first GPU") || open.kernels() == nullptr) return;
      Windows windows(gpu.driver(), self.rank(), {self.rank() == 0, self.rank() == 1});
      WindowOffer mine = windows.offer(0, &open);
      const CurrentContext current = open.make_current();
      std::byte* const lent = gpu.allocate(whole ? mine.bytes : size_t{2} << 20);
      if (self.rank() == 1)
        self.expect(gpu.driver().lend(&mine.handle, cuda_address(lent)) == kCudaSuccess, "lend");
      std::vector<WindowOffer> all(2);
      self.gather(&mine, all.data(), sizeof mine);
      if (self.rank() == 0) {
        const auto bytes = std::as_bytes(std::span(all));
        self.expect(windows.decide(0, bytes) == Branch::kOtherwise, "nobody is ready");
        self.expect((windows.offer(1, &open).ready == 1) == whole, "what can be read");
        const std::string news = windows.take_news();
        self.expect((news.find("and a window has") == std::string::npos) == whole, news);
      }
      windows.leave_others();
      self.meet();
      gpu.free(lent);
    });
}

TEST_P(LentWindows, AreNotForPinnedMemory) {
  run(2, [](Rank& self) {
    constexpr size_t kCount = 40000;
    RankGpu gpu(self);
    banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
    if (comm == nullptr) return;
    const std::vector<float> ones(kCount, 1);
    std::byte* const send = gpu.copy_of(ones.data(), kCount * sizeof(float));
    auto* const recv = static_cast<float*>(gpu.allocate_pinned(kCount * sizeof(float)));
    for (int call = 0; call < 3; ++call) {
      std::fill(recv, recv + kCount, 0.0F);
      self.expect_ok(banyan_allreduce(send, recv, kCount, BANYAN_FLOAT32, BANYAN_SUM, comm),
                     "allreduce");
      self.expect(std::all_of(recv, recv + kCount, [](float sum) { return sum == 2; }), "two ones");
    }
    const Result<uint64_t> by_windows = calls_by_windows(comm);
    self.expect(by_windows.ok() && *by_windows == 0, "a result on the host goes by the host");
    self.leave(comm);
    gpu.free(send);
    gpu.free_pinned(recv);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, LentWindows, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::lent_windows_test
