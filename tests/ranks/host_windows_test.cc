// Ranks of one host, of two, read each other's memory of GPUs: what comes of sums is what comes of
// them by the host, whichever hosts go by windows.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "tests/ranks/hosted_sums.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::host_windows_test {
namespace {

class HostWindowCalls : public OnTwoHosts {};

TEST_P(HostWindowCalls, SumAsTheHostDoes) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1, 1}, {0, 1, 0, 1, 1}, {1, 0, 0}})
    run_on(hosts, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
      const bool alone = hosts.size() == 3 && self.rank() == 0;
      uint64_t calls = 0;
      int salt = 0;
      for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_BFLOAT16})
        for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG, BANYAN_MAX})
          for (const char* codec : {static_cast<const char*>(nullptr), "int8"}) {
            if (codec != nullptr && op == BANYAN_MAX) continue;
            const HostedSum what{.type = type, .op = op, .count = 140'003, .codec = codec};
            expect_same(self, comm, gpu, what, true, ++salt);
            if (!alone && salt > 1) ++calls;  // the first one maps windows
            self.expect(windows_of(self, comm) == calls,
                        fmt::format("call {} by windows: {}", salt, windows_of(self, comm)));
          }
    });
}

// Each rank has a scalar of its own, by which its GPU scales what it gives.
TEST_P(HostWindowCalls, ScaleAsTheHostDoes) {
  run_on({0, 1, 0, 1, 1}, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    uint64_t calls = 0;
    for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_BFLOAT16}) {
      const auto scalar = Table::scalar(static_cast<DataType>(type), self.rank());
      banyan_op_t op = -1;
      self.expect_ok(banyan_op_create_premulsum(comm, scalar.data(), type, &op), "a scalar");
      for (const int salt : {1, 2}) {
        expect_same(self, comm, gpu, {.type = type, .op = op, .count = 140'003}, true, salt);
        self.expect(windows_of(self, comm) == calls++, "by windows");
      }
      self.expect_ok(banyan_op_destroy(comm, op), "destroy");
    }
  });
}

// Each rank has a block. Blocks are gathered where they are, or apart.
TEST_P(HostWindowCalls, HaveBlocksAsTheHostDoes) {
  constexpr size_t kCount = 40'001;
  const std::vector<int> hosts{0, 1, 0, 1, 1};
  run_on(hosts, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const size_t block = kCount * 2, all = block * hosts.size();
    const std::vector<uint16_t> given = values_of(self.rank(), all, 3);
    uint64_t calls = 0;
    for (const bool gathers : {true, false, true, false}) {
      const size_t send_bytes = gathers ? block : all, recv_bytes = gathers ? all : block;
      const auto run_call = [&](const void* send, void* recv) {
        return gathers
                   ? banyan_allgather(send, recv, kCount, BANYAN_BFLOAT16, comm)
                   : banyan_reduce_scatter(send, recv, kCount, BANYAN_BFLOAT16, BANYAN_SUM, comm);
      };
      std::vector<uint16_t> wanted(recv_bytes / 2), got(recv_bytes / 2);
      self.expect_ok(run_call(given.data(), wanted.data()), "by the host");
      std::byte* send = gpu.copy_of(given.data(), send_bytes);
      std::byte* recv = gpu.allocate(recv_bytes);
      self.expect_ok(run_call(send, recv), "on the GPU");
      gpu.read(got.data(), recv, recv_bytes);
      gpu.free(send);
      gpu.free(recv);
      self.expect(got == wanted, gathers ? "gathered" : "summed");
      self.expect(windows_of(self, comm) == calls++, "by windows");
    }
  });
}

// What ranks of a host have for each other goes by windows, and the rest by collectors.
TEST_P(HostWindowCalls, ExchangeBlocksAsTheHostDoes) {
  const std::vector<int> hosts{0, 1, 0, 1, 1};
  run_on(hosts, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    uint64_t calls = 0;
    for (const size_t count : {size_t{40'001}, size_t{1'000'003}})  // in one piece, and in two
      for (const bool in_place : {false, true}) {
        const size_t bytes = count * 2 * hosts.size();
        const std::vector<uint16_t> given = values_of(self.rank(), bytes, 7);
        std::vector<uint16_t> wanted(given.size()), got(given.size());
        self.expect_ok(banyan_alltoall(given.data(), wanted.data(), count, BANYAN_BFLOAT16, comm),
                       "by the host");
        std::byte* send = gpu.copy_of(given.data(), bytes);
        std::byte* recv = in_place ? send : gpu.allocate(bytes);
        self.expect_ok(banyan_alltoall(send, recv, count, BANYAN_BFLOAT16, comm), "on the GPU");
        gpu.read(got.data(), recv, bytes);
        gpu.free(send);
        if (!in_place) gpu.free(recv);
        self.expect(got == wanted, fmt::format("blocks of {}", count));
        self.expect(windows_of(self, comm) == calls++, "by windows");
      }
  });
}

TEST_P(HostWindowCalls, GoToAndFromARootAsByTheHost) {
  constexpr size_t kCount = 140'003, kBytes = kCount * 2;
  run_on({0, 1, 0, 1, 1}, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const std::vector<uint16_t> given = values_of(self.rank(), kBytes, 5);
    uint64_t calls = 0;
    for (const int root : {0, 3})
      for (const bool sums : {true, false}) {
        const auto run_call = [&](const void* send, void* recv) {
          return sums ? banyan_reduce(send, recv, kCount, BANYAN_BFLOAT16, BANYAN_SUM, root, comm)
                      : banyan_broadcast(send, recv, kCount, BANYAN_BFLOAT16, root, comm);
        };
        std::vector<uint16_t> wanted(kCount), got(kCount);
        self.expect_ok(run_call(given.data(), wanted.data()), "by the host");
        std::byte* send = gpu.copy_of(given.data(), kBytes);
        std::byte* recv = gpu.copy_of(got.data(), kBytes);
        self.expect_ok(run_call(send, recv), "on the GPU");
        gpu.read(got.data(), recv, kBytes);
        gpu.free(send);
        gpu.free(recv);
        self.expect(got == wanted, sums ? "summed" : "spread");
        self.expect(windows_of(self, comm) == calls++, "by windows");
      }
  });
}

// Longer than all places of a window.
TEST_P(HostWindowCalls, UseAWindowAgain) {
  if (kAddressSanitizer) GTEST_SKIP() << "it takes minutes under a sanitizer";
  run_on({0, 0, 1, 1}, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    for (const int salt : {1, 2}) expect_same(self, comm, gpu, {.count = 11'000'001}, true, salt);
    self.expect(windows_of(self, comm) == 1, "the second one");
  });
}

// The ranks of one host have their buffers there, in some calls, and those of the other do not.
TEST_P(HostWindowCalls, AreEachHostsOwn) {
  const std::vector<int> hosts{0, 1, 1, 0};
  run_on(hosts, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    const int host = hosts[static_cast<size_t>(self.rank())];
    uint64_t calls = 0;
    for (int salt = 0; salt < 8; ++salt) {
      const bool on_gpu = salt == 0 || (salt >> host & 1) != 0;
      expect_same(self, comm, gpu, {}, on_gpu, salt);
      calls += salt > 0 && on_gpu ? 1 : 0;
      self.expect(windows_of(self, comm) == calls, fmt::format("call {}", salt));
    }
  });
}

// A GPU writes sums to memory of the host, which the driver must have locked: where it does not,
// the host goes on by its memory.
TEST_P(HostWindowCalls, NeedMemoryThatTheGpuReaches) {
  const std::vector<int> hosts{0, 0, 1, 1};
  run_on(hosts, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    if (!gpu.has_faults()) return;
    if (self.rank() == 1) gpu.fail("cuMemHostRegister", 0, 2);
    for (int salt = 0; salt < 3; ++salt) expect_same(self, comm, gpu, {}, true, salt);
    const bool locked = hosts[static_cast<size_t>(self.rank())] == 1;
    self.expect(windows_of(self, comm) == (locked ? 2U : 0U), "by windows");
  });
}

TEST_P(HostWindowCalls, EndWhereARankDies) {
  const std::vector<int> hosts{0, 0, 1, 1};
  for (const int victim : {1, 2}) {
    JobOptions options{.limit_s = 60, .environment = {{"BANYAN_ALGO", "hierarchical"}}};
    Job job(
        GetParam(), 4,
        [&](Rank& self) {
          if (!self.expect(enter(hosts[static_cast<size_t>(self.rank())]), "a host")) return;
          RankGpu gpu(self);
          banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
          if (comm == nullptr) return;
          std::byte* memory = gpu.allocate(280'000);
          banyan_result_t result = BANYAN_SUCCESS;
          for (int call = 0; result == BANYAN_SUCCESS; ++call) {
            result = sum({.op = BANYAN_MAX, .count = 70'000}, memory, comm);
            if (call == 2) self.mark(1);
          }
          self.report(comm, result);
          self.expect_ok(banyan_comm_destroy(comm), "destroy");
        },
        options);
    ASSERT_TRUE(job.wait_for_marks(1, 20 * time_factor()));
    job.wait(0.003);
    job.signal(victim, SIGKILL);
    job.finish();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
      EXPECT_EQ(job.outcome(rank).failed_rank, victim);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostWindowCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::host_windows_test
