// Ranks of one host, and of one of two, whose GPUs exchange by NCCL: sums have the bits of the
// host, whoever has its buffers where, and whatever fails.
// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/nccl.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ranks/hosted_sums.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::nccl_test {
namespace {

constexpr size_t kLeast = 16384;  // float32 that have as many bytes as a call by NCCL has

// The stand-in's, where tests have one.
std::string nccl_library() {
  const char* const value = std::getenv("BANYAN_TEST_NCCL");  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

decltype(JobOptions::environment) asked(std::string library = nccl_library()) {
  return {{"BANYAN_ALGO", "hierarchical(intra=nccl)"}, {"BANYAN_NCCL_LIBRARY", std::move(library)}};
}

JobOptions by_nccl(decltype(JobOptions::environment) more = {}) {
  JobOptions options{.limit_s = 60, .environment = asked()};
  options.environment.insert(options.environment.end(), more.begin(), more.end());
  return options;
}

// NCCL is made while calls go by the host. So many may go by.
bool begin_nccl(Rank& self, banyan_comm_t comm, RankGpu& gpu) {
  Vector vector(gpu, kLeast, true);
  for (int call = 0; call < 2000; ++call) {
    if (!add_up(self, comm, gpu, vector, kLeast, call)) return false;
    if (windows_of(self, comm) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return self.expect(false, "NCCL never was ready");
}

class NcclCalls : public WithWindows {
 protected:
  void SetUp() override {
    if (nccl_library().empty()) GTEST_SKIP() << "without the stand-in NCCL wants a GPU for a rank";
    if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  }
};

TEST_P(NcclCalls, GoByItOnceItIsThere) {
  for (const int size : {2, 3, 5})
    run_with_windows(
        size,
        [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
          if (!begin_nccl(self, comm, gpu)) return;
          for (const size_t count : {kLeast, kLeast + 1, size_t{100003}, size_t{300001}}) {
            Vector vector(gpu, count, true);
            for (int call = 0; call < 2; ++call) {
              const uint64_t before = windows_of(self, comm);
              if (!add_up(self, comm, gpu, vector, count, call)) return;
              self.expect(windows_of(self, comm) == before + 1, fmt::format("sum of {}", count));
            }
          }
        },
        by_nccl());
}

// Those that have it go by it, and the others by windows that ranks read themselves.
TEST_P(NcclCalls, HaveEveryCollective) {
  constexpr Collective kAll[] = {
      Collective::kAllreduce,      Collective::kReduce,     Collective::kBroadcast,
      Collective::kAllgather,      Collective::kAllgatherv, Collective::kReduceScatter,
      Collective::kReduceScatterv, Collective::kGather,     Collective::kScatter};
  for (const int size : kThreadSanitizer ? std::vector{3} : std::vector{2, 3, 5}) {
    const Table tables[] = {Table(DataType::kFloat32, ReduceOp::kSum, size, 1),
                            Table(DataType::kBfloat16, ReduceOp::kAvg, size, 2),
                            Table(DataType::kInt8, ReduceOp::kMax, size, 3),
                            Table(DataType::kFloat64, ReduceOp::kAvg, size, 4),
                            Table(DataType::kFloat16, ReduceOp::kPreMulSum, size, 5)};
    run_with_windows(
        size,
        [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
          if (!begin_nccl(self, comm, gpu)) return;
          const uint64_t before = windows_of(self, comm);
          OnGpuLender lender(gpu);
          Bench bench(self, comm);
          bench.use(lender);
          int draw = 0;
          for (const Collective collective : kAll)
            for (const Table& table : tables)
              for (const size_t count : {size_t{65536}, size_t{90001}}) {
                const Case call{.collective = collective,
                                .count = count,
                                .root = ++draw % size,
                                .in_place = draw % 3 == 0,
                                .skew = static_cast<size_t>(draw % 4) * 8};
                if (!bench.run(call, table)) return;
              }
          self.agree(bench.digest(), "results that every rank holds");
          // The first call by windows says where they are.
          self.expect(windows_of(self, comm) - before + 1 == static_cast<uint64_t>(bench.calls()),
                      fmt::format("{} of {}", windows_of(self, comm) - before, bench.calls()));
        },
        by_nccl());
  }
}

// One at a time goes by it; the others go by the host.
TEST_P(NcclCalls, MayBeSeveralAtATime) {
  run_with_windows(
      3,
      [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!begin_nccl(self, comm, gpu)) return;
        constexpr size_t kCount = 70001;
        std::vector<std::unique_ptr<Vector>> vectors;
        std::vector<banyan_request_t> requests(4);
        for (banyan_request_t& request : requests) {
          vectors.push_back(std::make_unique<Vector>(gpu, kCount, true));
          banyan_call_t given = BANYAN_CALL_INIT;
          given.send = given.recv = vectors.back()->data();
          given.count = kCount;
          if (!self.expect_ok(banyan_request_create(comm, &given, &request), "create")) return;
        }
        const uint64_t before = windows_of(self, comm);
        for (int round = 0; round < 5; ++round) {
          for (size_t call = 0; call < requests.size(); ++call) {
            vectors[call]->fill(self.rank(), round * 10 + static_cast<int>(call));
            self.expect_ok(banyan_request_start(requests[call]), "start");
          }
          for (size_t call = 0; call < requests.size(); ++call) {
            if (!self.expect_ok(banyan_request_wait(requests[call]), "wait")) return;
            const int salt = round * 10 + static_cast<int>(call);
            self.expect(vectors[call]->values() == sum_of(gpu, self.size(), kCount, salt),
                        fmt::format("call {} of round {}", call, round));
          }
        }
        self.expect(windows_of(self, comm) >= before + 1, "one of them all");
        for (banyan_request_t request : requests)
          self.expect_ok(banyan_request_destroy(request), "destroy");
      },
      by_nccl());
}

TEST_P(NcclCalls, GoByTheHostWhereARankIsThere) {
  run_with_windows(
      3,
      [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!begin_nccl(self, comm, gpu)) return;
        Vector there(gpu, 50000, true), here(gpu, 50000, false);
        for (int call = 0; call < 16; ++call) {
          const uint64_t before = windows_of(self, comm);
          const bool is_here = (call >> self.rank() & 1) != 0;
          if (!add_up(self, comm, gpu, is_here ? here : there, 50000, call)) return;
          self.expect(windows_of(self, comm) - before == ((call & 7) == 0 ? 1U : 0U),
                      fmt::format("call {}", call));
        }
      },
      by_nccl());
}

// What keeps a rank from it, or all of them, is in the log, and calls go by the host.
TEST_P(NcclCalls, GoByTheHostWhereItCannotBeHad) {
  const std::pair<const char*, decltype(JobOptions::environment)> reasons[] = {
      {"cannot be loaded: /nowhere/libnccl.so.2", asked("/nowhere/libnccl.so.2")},
      {"is no NCCL of version 2.14", asked("libcuda.so.1")},
      {"told to fail", by_nccl({{"STANDIN_NCCL_REFUSES", "1"}}).environment}};
  for (const auto& [reason, environment] : reasons) {
    TemporaryFolder folder;
    const std::string log = folder.path() / "log";
    JobOptions options{.limit_s = 60, .environment = environment};
    options.environment.emplace_back("BANYAN_DEBUG", "info");
    options.environment.emplace_back("BANYAN_DEBUG_FILE", log);
    run_with_windows(
        3,
        [&, why = reason](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
          Vector vector(gpu, kLeast, true);
          for (int call = 0; call < 30; ++call) {
            if (!add_up(self, comm, gpu, vector, kLeast, call)) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          self.expect(windows_of(self, comm) == 0, "no call went by NCCL");
          self.meet();
          if (self.rank() != 0) return;
          const std::string text = text_of(log);
          self.expect(text.find("NCCL is not used inside this host") != std::string::npos, text);
          self.expect(text.find(why) != std::string::npos, text);
        },
        options);
  }
}

// NCCL itself wants a GPU for each rank, and calls go on where it finds one for all.
class RealNccl : public WithWindows {};

TEST_P(RealNccl, IsLeftAloneOnOneGpu) {
  if (!nccl_library().empty()) GTEST_SKIP() << "the stand-in lets ranks share a GPU";
  if (!open_nccl({}).ok()) GTEST_SKIP() << "this machine has no libnccl.so.2";
  run_with_windows(
      2,
      [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (gpu.has_faults()) return;
        Vector vector(gpu, kLeast, true);
        for (int call = 0; call < 300; ++call) {
          if (!add_up(self, comm, gpu, vector, kLeast, call)) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        self.expect(windows_of(self, comm) == 0, "two ranks of one GPU by NCCL");
      },
      by_nccl());
}

INSTANTIATE_TEST_SUITE_P(Kinds, RealNccl, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

// The others wait for it in streams, which end all the same.
TEST_P(NcclCalls, FailWhereAnExchangeFails) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "all threads count exchanges together";
  run(
      3,
      [](Rank& self) {
        RankGpu gpu(self);
        // The others are told nothing.
        if (self.rank() != 1) ::unsetenv("STANDIN_NCCL_FAILS");  // NOLINT(concurrency-mt-unsafe)
        banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
        if (comm == nullptr) return;
        Vector vector(gpu, kLeast, true);
        banyan_result_t result = BANYAN_SUCCESS;
        for (int call = 0; call < 2000 && result == BANYAN_SUCCESS; ++call) {
          result = banyan_allreduce(vector.data(), vector.data(), kLeast, BANYAN_FLOAT32,
                                    BANYAN_MAX, comm);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        self.expect(result == BANYAN_ERR_CUDA, fmt::format("{}", int{result}));
        const std::string text = banyan_last_error(comm);
        self.expect(text.find("rank 1") != std::string::npos, text);
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      },
      by_nccl({{"STANDIN_NCCL_FAILS", "5"}}));
}

TEST_P(NcclCalls, EndWhereARankDies) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  for (const int victim : {0, 1, 2}) {
    Job job(
        GetParam(), 3,
        [](Rank& self) {
          RankGpu gpu(self);
          banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
          if (comm == nullptr || !begin_nccl(self, comm, gpu)) return;
          Vector vector(gpu, 300000, true);
          banyan_result_t result = BANYAN_SUCCESS;
          for (int call = 0; result == BANYAN_SUCCESS; ++call) {
            result = banyan_allreduce(vector.data(), vector.data(), 300000, BANYAN_FLOAT32,
                                      BANYAN_MAX, comm);
            if (call == 2) self.mark(1);
          }
          self.report(comm, result);
          self.expect_ok(banyan_comm_destroy(comm), "destroy");
        },
        by_nccl());
    ASSERT_TRUE(job.wait_for_marks(1, 20 * time_factor()));
    job.wait(0.003);
    job.signal(victim, SIGKILL);
    job.finish();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
      EXPECT_EQ(job.outcome(rank).failed_rank, victim);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NcclCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

class HostNcclCalls : public OnTwoHosts {
 protected:
  void SetUp() override {
    if (nccl_library().empty()) GTEST_SKIP() << "without the stand-in NCCL wants a GPU for a rank";
    OnTwoHosts::SetUp();
  }
};

// Inside each host by it, between them by us; a host may have one rank.
TEST_P(HostNcclCalls, SumAsTheHostDoes) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1, 1}, {0, 1, 0, 1, 1}, {1, 0, 0}})
    run_on(
        hosts,
        [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
          const bool alone = hosts.size() == 3 && self.rank() == 0;
          int salt = 0;
          for (; salt < 40; ++salt) {
            expect_same(self, comm, gpu, {}, true, salt);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          if (!alone) self.expect(windows_of(self, comm) != 0, "NCCL is there");
          for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_BFLOAT16})
            for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG, BANYAN_MAX})
              for (const char* codec : {static_cast<const char*>(nullptr), "int8"}) {
                if (codec != nullptr && op == BANYAN_MAX) continue;
                const uint64_t before = windows_of(self, comm);
                const HostedSum what{.type = type, .op = op, .count = 140'003, .codec = codec};
                expect_same(self, comm, gpu, what, true, ++salt);
                self.expect(windows_of(self, comm) - before == (alone ? 0U : 1U),
                            fmt::format("call {} by NCCL", salt));
              }
        },
        asked());
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostNcclCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::nccl_test
