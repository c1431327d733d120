// Windows go by descriptors where processes cannot have handles, and by the host where they cannot
// have descriptors either; nothing of it is left behind.
// SPDX-License-Identifier: Apache-2.0

#include <dirent.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/cuda/windows.h"
#include "tests/ranks/window_calls.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::window_ways_test {
namespace {

constexpr int kNotSupported = 801;
constexpr int kSharesByDescriptors = 103;  // CUdevice_attribute
constexpr int kCallsBefore = 8;            // by the host, at most, until all have what they want

struct Refused {
  const char* function;
  int by = -1;  // rank; -1: by all
};

void refuse(Rank& self, RankGpu& gpu, const std::vector<Refused>& refused) {
  for (const Refused& each : refused)
    if (each.by < 0 || each.by == self.rank()) gpu.fail(each.function, 0, kNotSupported);
}

bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// What this process holds of the driver and, where no other rank is in it, of the system.
std::vector<long> holdings(Kind kind) {
  std::vector<long> held{0};
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(
      kind == Kind::kThreads ? nullptr : opendir("/proc/self/fd"), closedir);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): each folder is one thread's
  while (folder != nullptr && readdir(folder.get()) != nullptr) ++held.back();
  using Live = long(const char*);
  auto* live = reinterpret_cast<Live*>(dlsym(RTLD_DEFAULT, "standin_cuda_live"));
  for (const char* what : {"memory", "physical", "handles", "ranges"})
    held.push_back(live == nullptr ? 0 : live(what));
  return held;
}

std::string described(const std::vector<long>& held) {
  return fmt::format("{} descriptors, memory {}, physical {}, handles {}, ranges {}", held[0],
                     held[1], held[2], held[3], held[4]);
}

class WindowWays : public WindowCalls {
 protected:
  // Three ranks make calls with right results, of which some go by windows, or none, and leave
  // nothing behind. What the log has of it; empty: the driver cannot be told to refuse.
  static std::string log_of_calls(const std::vector<Refused>& refused, bool by_windows) {
    TemporaryFolder folder;
    const std::string log = folder.path() / "log";
    run(3,
        [&](Rank& self) {
          RankGpu gpu(self);
          if (!gpu.works() || !gpu.has_faults()) return;
          self.meet();
          const std::vector<long> before = holdings(GetParam());
          self.meet();
          banyan_comm_t comm = self.join();
          if (comm == nullptr) return;
          refuse(self, gpu, refused);
          make_calls(self, comm, gpu, by_windows);
          // What was never asked for would fail a later test in this process.
          for (const Refused& each : refused) gpu.fail(each.function, 0, kCudaSuccess);
          self.leave(comm);
          self.meet();
          const std::vector<long> after = holdings(GetParam());
          self.expect(after == before,
                      fmt::format("before: {}; after: {}", described(before), described(after)));
          self.meet();
        },
        {.limit_s = 60, .environment = {{"BANYAN_DEBUG", "info"}, {"BANYAN_DEBUG_FILE", log}}});
    return banyan::test::text_of(log);
  }

 private:
  static void make_calls(Rank& self, banyan_comm_t comm, RankGpu& gpu, bool by_windows) {
    Vector vector(gpu, kLeast, true);
    for (int call = 0; call < kCallsBefore + 2; ++call)
      if (!add_up(self, comm, gpu, vector, kLeast, call)) return;
    const uint64_t calls = windows_of(self, comm);
    self.expect(by_windows ? calls >= 2 : calls == 0,
                fmt::format("{} calls went by windows", calls));
    self.agree(calls, "the number of calls that went by windows");
  }
};

TEST_P(WindowWays, AreDescriptorsWhereNoHandleIsToBeHad) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads need no handles";
  for (const int by : {-1, 1}) {
    const std::string log = log_of_calls({{"cuIpcGetMemHandle", by}}, true);
    if (log.empty()) return;
    EXPECT_TRUE(says(log, "that of rank 1 by a descriptor: cuIpcGetMemHandle")) << log;
    EXPECT_EQ(says(log, "that of rank 0 by a descriptor"), by < 0) << log;
  }
}

// Those that could be opened are made anew, too.
TEST_P(WindowWays, AreDescriptorsWhereAPeerOpensNoHandle) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads need no handles";
  for (const int by : {-1, 1}) {
    const std::string log = log_of_calls({{"cuIpcOpenMemHandle", by}}, true);
    if (log.empty()) return;
    EXPECT_TRUE(says(log, "that of rank 0 by a descriptor: rank 1 cannot open")) << log;
    EXPECT_EQ(says(log, "that of rank 1 by a descriptor"), by < 0) << log;
    EXPECT_FALSE(says(log, "do not read each other's")) << log;
  }
}

// Each call of either side fails in its turn.
TEST_P(WindowWays, AreNoneWhereDescriptorsAreRefusedToo) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads need no handles";
  const auto check = [](const Refused& handle, const Refused& descriptor, const char* reason) {
    const std::string log = log_of_calls({handle, descriptor}, false);
    if (log.empty()) return;
    const std::string both =
        fmt::format("{}; {}: CUDA_ERROR_NOT_SUPPORTED", reason, descriptor.function);
    EXPECT_TRUE(says(log, both)) << both << " in " << log;
  };
  for (const char* function : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
                               "cuMemExportToShareableHandle"}) {
    check({"cuIpcGetMemHandle", 1}, {function, 1}, "cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED");
    check({"cuIpcOpenMemHandle", 1}, {function, 0}, "rank 1 cannot open the handle of a window");
  }
  for (const char* function :
       {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"})
    check({"cuIpcOpenMemHandle", 1}, {function, 1}, "cuIpcOpenMemHandle: CUDA_ERROR_NOT_SUPPORTED");
}

// Threads ask for no handle, and so none is refused.
TEST_P(WindowWays, OfThreadsAreAddresses) {
  if (GetParam() == Kind::kProcesses) GTEST_SKIP() << "processes need handles";
  const std::string log =
      log_of_calls({{"cuIpcGetMemHandle"}, {"cuMemCreate"}, {"cuIpcOpenMemHandle"}}, true);
  EXPECT_FALSE(says(log, "by a descriptor")) << log;
}

// Whether it has the others' windows, or waits for what brings them.
TEST_P(WindowWays, EndWhereARankDies) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  for (const char* function : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle"})
    for (const int calls : {0, 2, kCallsBefore + 1})
      kill_one(mix(static_cast<uint64_t>(calls) + 5), calls, [&](RankGpu& gpu) {
        if (gpu.has_faults()) gpu.fail(function, 0, kNotSupported);
      });
}

// Also where no driver can be told to fail: this one's table says that it lends nothing.
TEST_P(WindowWays, ReachTheOthers) {
  const bool threads = GetParam() == Kind::kThreads;
  run(3, [&](Rank& self) {
    RankGpu gpu(self);
    int device = 0, by_descriptors = 0;
    if (!gpu.works() || gpu.driver().current_device(&device) != kCudaSuccess) return;
    (void)gpu.driver().attribute(&by_descriptors, kSharesByDescriptors, device);
    CudaFunctions lends_nothing = gpu.driver();
    lends_nothing.lend = [](CudaIpcHandle*, CudaFunctions::Address) { return kNotSupported; };
    OpenGpu open(gpu.driver());
    if (by_descriptors == 0 || !self.expect(open.open(device).ok(), "its GPU")) return;
    std::vector<bool> in_process(3, threads);
    in_process[static_cast<size_t>(self.rank())] = true;
    Windows windows(lends_nothing, self.rank(), in_process);
    std::vector<WindowOffer> all(3);
    Branch branch = Branch::kOtherwise;
    uint64_t call = 0;
    while (branch != Branch::kPeers && ++call < kCallsBefore) {
      const WindowOffer mine = windows.offer(call, &open);
      self.gather(&mine, all.data(), sizeof mine);
      branch = windows.decide(call, std::as_bytes(std::span(all)));
    }
    if (!self.expect(branch == Branch::kPeers, windows.take_news())) return;
    std::vector<uint8_t> given(kLeast), got(kLeast);
    for (size_t i = 0; i < kLeast; ++i)
      given[i] = static_cast<uint8_t>(mix(i * 4 + static_cast<size_t>(self.rank())));
    gpu.write_on(nullptr, windows.of(call, self.rank()), given.data(), kLeast);
    gpu.synchronize(nullptr);
    self.meet();
    for (int rank = 0; rank < 3; ++rank) {
      gpu.read(got.data(), windows.of(call, rank), kLeast);
      for (size_t i = 0; i < kLeast; ++i)
        given[i] = static_cast<uint8_t>(mix(i * 4 + static_cast<size_t>(rank)));
      self.expect(got == given, fmt::format("the window of rank {}", rank));
    }
    self.meet();
    windows.leave_others();
    self.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, WindowWays, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::window_ways_test
