// Ranks of one host read each other's memory of GPUs: what comes of it is what comes of it by the
// host, whoever has its buffers where, and whatever fails.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/ranks/window_calls.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::windows_test {
namespace {

// The first call says where windows are, and all later ones go by them, with the same bits.
TEST_P(WindowCalls, GoByThemFromTheSecondOn) {
  for (const int size : {2, 3, 4, 8})
    for (const size_t count : {kLeast, kLeast + 1, size_t{100003}})
      run_with_windows(size, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        Vector vector(gpu, count, true);
        for (int call = 0; call < 4; ++call) {
          if (!add_up(self, comm, gpu, vector, count, call)) return;
          self.expect(
              windows_of(self, comm) == static_cast<uint64_t>(call),
              fmt::format("{} went by windows after call {}", windows_of(self, comm), call));
        }
      });
}

// Lengths that a window has room for, and longer ones.
TEST_P(WindowCalls, HaveEveryCollective) {
  constexpr Collective kByWindows[] = {
      Collective::kAllreduce,      Collective::kReduce,     Collective::kBroadcast,
      Collective::kAllgather,      Collective::kAllgatherv, Collective::kReduceScatter,
      Collective::kReduceScatterv, Collective::kAlltoall,   Collective::kAlltoallv,
      Collective::kGather,         Collective::kScatter};
  const std::vector<int> sizes = kThreadSanitizer ? std::vector{3} : std::vector{2, 3, 5};
  for (const int size : sizes) {
    const Table tables[] = {Table(DataType::kFloat32, ReduceOp::kSum, size, 1),
                            Table(DataType::kBfloat16, ReduceOp::kAvg, size, 2),
                            Table(DataType::kInt8, ReduceOp::kMax, size, 3),
                            Table(DataType::kFloat64, ReduceOp::kAvg, size, 4),
                            Table(DataType::kFloat16, ReduceOp::kPreMulSum, size, 5)};
    run_with_windows(size, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
      OnGpuLender lender(gpu);
      Bench bench(self, comm);
      bench.use(lender);
      int draw = 0;
      for (const Collective collective : kByWindows)
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
      self.expect(windows_of(self, comm) + 1 == static_cast<uint64_t>(bench.calls()),
                  fmt::format("{} of {} calls", windows_of(self, comm), bench.calls()));
    });
  }
}

TEST_P(WindowCalls, AreLongerThanAWindow) {
  if (kThreadSanitizer || kAddressSanitizer) GTEST_SKIP() << "it takes minutes under a sanitizer";
  const Table table(DataType::kFloat32, ReduceOp::kSum, 3, 5);
  run_with_windows(3, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    OnGpuLender lender(gpu);
    Bench bench(self, comm);
    bench.use(lender);
    const size_t count = (size_t{40} << 20) / sizeof(float) + 5;  // a window has 32 MiB
    for (const Collective collective :
         {Collective::kAllreduce, Collective::kBroadcast, Collective::kAllgather})
      if (!bench.run({.collective = collective, .count = count}, table)) return;
    self.expect(windows_of(self, comm) == 2, "two of three calls");
  });
}

// Some of the ranks' blocks are empty, and some longer than a window has room for at a time.
struct Blocks {
  std::vector<size_t> send_counts, recv_counts;

  Blocks(int rank, int ranks, size_t longest) {
    const auto count = [&](int from, int to) {
      const auto turn = static_cast<size_t>((from + 2 * to) % ranks);
      return turn == 1 ? size_t{0} : longest / (1 + turn) + static_cast<size_t>(from);
    };
    for (int other = 0; other < ranks; ++other) {
      send_counts.push_back(count(rank, other));
      recv_counts.push_back(count(other, rank));
    }
  }
  static size_t all(const std::vector<size_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), size_t{0});
  }
  banyan_result_t exchange(const void* send, void* recv, banyan_comm_t comm) const {
    return banyan_alltoallv(send, send_counts.data(), nullptr, recv, recv_counts.data(), nullptr,
                            BANYAN_FLOAT32, comm);
  }
};

TEST_P(WindowCalls, ExchangeBlocksOfAnyLength) {
  run_with_windows(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    uint64_t by_windows = 0;
    for (const size_t longest : {kLeast, size_t{3} << 20, size_t{100}}) {
      const Blocks blocks(self.rank(), self.size(), longest);
      Vector send(gpu, Blocks::all(blocks.send_counts), true);
      Vector recv(gpu, Blocks::all(blocks.recv_counts), true);
      Vector here(gpu, Blocks::all(blocks.send_counts), false);
      Vector wanted(gpu, Blocks::all(blocks.recv_counts), false);
      here.fill(self.rank(), 1);
      self.expect_ok(blocks.exchange(here.data(), wanted.data(), comm), "by the host");
      for (int call = 0; call < 2; ++call) {
        send.fill(self.rank(), 1);
        recv.fill(9, call);
        if (!self.expect_ok(blocks.exchange(send.data(), recv.data(), comm), "exchange")) return;
        self.expect(recv.values() == wanted.values(), fmt::format("blocks of {}", longest));
      }
      if (longest != 100) by_windows += by_windows == 0 ? 1 : 2;  // that is short
      self.expect(windows_of(self, comm) == by_windows, fmt::format("{} by windows", longest));
    }
  });
}

// Two ranks that differ in what goes between them are told so, and nothing is written.
TEST_P(WindowCalls, ExchangeNothingWhereCountsDiffer) {
  run(3, [](Rank& self) {
    RankGpu gpu(self);
    banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
    if (comm == nullptr) return;
    Blocks blocks(self.rank(), self.size(), kLeast);
    Vector send(gpu, Blocks::all(blocks.send_counts), true);
    Vector recv(gpu, Blocks::all(blocks.recv_counts), true);
    send.fill(self.rank(), 1);
    for (int call = 0; call < 2; ++call)
      self.expect_ok(blocks.exchange(send.data(), recv.data(), comm), "exchange");
    self.expect(windows_of(self, comm) == 1, "by windows");
    recv.fill(9, 2);
    const std::vector<float> before = recv.values();
    if (self.rank() == 2) --blocks.send_counts[0];
    banyan_result_t result = blocks.exchange(send.data(), recv.data(), comm);
    if (result == BANYAN_SUCCESS) {
      self.expect(self.rank() == 1, "a rank that differs was told nothing");
      result = banyan_barrier(comm);
    } else {
      self.expect(recv.values() == before, "what it takes is as it was");
    }
    self.expect_code(result, BANYAN_ERR_MISMATCH, "two counts that differ");
    self.expect(windows_of(self, comm) == 1, "by the host");
    self.meet();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// Each rank has a scalar of its own, in the memory of the host or of the GPU, and bits of any kind.
TEST_P(WindowCalls, ScaleAsTheHostDoes) {
  run_with_windows(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    constexpr size_t kCount = 70001;
    const auto random = [&](size_t i) { return mix(i * 8 + static_cast<size_t>(self.rank())); };
    uint64_t by_windows = 0;
    for (int type = 0; type < static_cast<int>(kDataTypeCount); ++type) {
      const auto datatype = static_cast<banyan_datatype_t>(type);
      std::vector<uint64_t> given(kCount), wanted(kCount), got(kCount);
      for (size_t i = 0; i < kCount; ++i) given[i] = random(i);
      const auto scalar = Table::scalar(static_cast<DataType>(type), self.rank());
      std::byte* const scalar_there = gpu.copy_of(scalar.data(), scalar.size());
      banyan_op_t op = -1;
      self.expect_ok(banyan_op_create_premulsum(comm, scalar_there, datatype, &op), "a scalar");
      gpu.free(scalar_there);
      const auto sum = [&](const void* send, void* recv) {
        return banyan_allreduce(send, recv, kCount, datatype, op, comm);
      };
      self.expect_ok(sum(given.data(), wanted.data()), "by the host");
      std::byte* const send = gpu.copy_of(given.data(), kCount * 8);
      std::byte* const recv = gpu.copy_of(got.data(), kCount * 8);
      for (int call = 0; call < 2; ++call) {
        if (!self.expect_ok(sum(send, recv), "on the GPU")) return;
        gpu.read(got.data(), recv, kCount * 8);
        self.expect(got == wanted, fmt::format("the bits of the host, type {}", type));
      }
      gpu.free(send);
      gpu.free(recv);
      self.expect_ok(banyan_op_destroy(comm, op), "destroy");
      by_windows += by_windows == 0 ? 1 : 2;
      self.expect(windows_of(self, comm) == by_windows, fmt::format("by windows, type {}", type));
    }
  });
}

banyan_result_t sum_by(const char* codec, void* memory, size_t count, banyan_op_t op,
                       banyan_comm_t comm, banyan_datatype_t type = BANYAN_FLOAT32) {
  banyan_compression_t asked = BANYAN_COMPRESSION_INIT;
  asked.fidelity = BANYAN_CODEC;
  asked.codec = codec;
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = call.recv = memory;
  call.count = count;
  call.op = op;
  call.datatype = type;
  call.compression = &asked;
  return call_request(call, comm);
}

// By a codec, windows have messages, and what they say is what is said on the host.
TEST_P(WindowCalls, HaveCodecs) {
  for (const int size : kThreadSanitizer ? std::vector{3} : std::vector{2, 3, 5})
    run_with_windows(size, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
      uint64_t by_windows = 0;
      for (const size_t count : {kLeast, size_t{70001}})
        for (const char* codec : {"int8", "int4", "dyn8", "e4m3", "e5m2", "fp16", "bf16"})
          for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG}) {
            Vector there(gpu, count, true), here(gpu, count, false);
            const std::string what = fmt::format("{} of {}, {}", codec, count, int{op});
            for (int call = 0; call < 2; ++call) {
              there.fill(self.rank(), call);
              here.fill(self.rank(), call);
              if (!self.expect_ok(sum_by(codec, there.data(), count, op, comm), what)) return;
              if (!self.expect_ok(sum_by(codec, here.data(), count, op, comm), what)) return;
              self.expect(there.values() == here.values(), what + ": the bits of the host");
            }
            by_windows += by_windows == 0 ? 1 : 2;
            self.expect(windows_of(self, comm) == by_windows, what + ": by windows");
          }
      // By chance: all ranks have the same, and no call of the host has.
      Vector vector(gpu, kLeast, true);
      vector.fill(self.rank(), 3);
      self.expect_ok(sum_by("int8+sr", vector.data(), kLeast, BANYAN_SUM, comm), "int8+sr");
      uint64_t digest = 0;
      for (const float value : vector.values())
        digest = mix(digest ^ std::bit_cast<uint32_t>(value));
      self.agree(digest, "sums by chance");
    });
}

// Elements of 16 bits are encoded where they are.
TEST_P(WindowCalls, HaveCodecsOfShortElements) {
  run_with_windows(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    constexpr size_t kCount = 70001;
    std::vector<uint16_t> given(kCount), got(kCount);
    uint64_t calls = 0;
    for (const banyan_datatype_t type : {BANYAN_BFLOAT16, BANYAN_FLOAT16})
      for (const char* codec : {"int8", "int4", "dyn8", "e4m3", "e5m2"})
        for (int call = 0; call < 2; ++call) {
          for (size_t i = 0; i < kCount; ++i)  // from a half to two in bfloat16
            given[i] = static_cast<uint16_t>(
                (mix(i * 8 + static_cast<size_t>(self.rank())) & 0x80ff) | 0x3f00);
          std::byte* memory = gpu.copy_of(given.data(), kCount * 2);
          const std::string what = fmt::format("{} of type {}", codec, int{type});
          self.expect_ok(sum_by(codec, memory, kCount, BANYAN_SUM, comm, type), what);
          gpu.read(got.data(), memory, kCount * 2);
          gpu.free(memory);
          self.expect_ok(sum_by(codec, given.data(), kCount, BANYAN_SUM, comm, type), what);
          self.expect(got == given, what + ": the bits of the host");
          self.expect(windows_of(self, comm) == calls++, what + ": by windows");
        }
  });
}

// Some have their buffers on the host, in some calls, and the bits are the same.
TEST_P(WindowCalls, GoByTheHostWhereARankIsThere) {
  run_with_windows(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    Vector there(gpu, 50000, true), here(gpu, 50000, false);
    uint64_t by_windows = 0;
    for (int call = 0; call < 24; ++call) {
      const auto is_here = [&](int rank) { return (call >> rank & 1) != 0; };
      Vector& vector = is_here(self.rank()) ? here : there;
      if (!add_up(self, comm, gpu, vector, 50000, call)) return;
      const bool by_host = call == 0 || is_here(0) || is_here(1) || is_here(2);
      by_windows += by_host ? 0 : 1;
      self.expect(windows_of(self, comm) == by_windows, fmt::format("call {}", call));
    }
    self.expect(by_windows == 2, "two calls of 24");
  });
}

// A window has room for two calls at a time; the others go by the host.
TEST_P(WindowCalls, AreSeveralAtATime) {
  run_with_windows(3, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    constexpr int kCalls = 5;
    constexpr size_t kCount = 40000;
    std::vector<std::unique_ptr<Vector>> vectors;
    std::vector<banyan_request_t> requests(kCalls);
    for (int call = 0; call < kCalls; ++call) {
      vectors.push_back(std::make_unique<Vector>(gpu, kCount, true));
      banyan_call_t given = BANYAN_CALL_INIT;
      given.send = given.recv = vectors.back()->data();
      given.count = kCount;
      if (!self.expect_ok(banyan_request_create(comm, &given, &requests[call]), "create")) return;
    }
    for (int round = 0; round < 6; ++round) {
      for (int call = 0; call < kCalls; ++call) {
        vectors[call]->fill(self.rank(), round * 10 + call);
        self.expect_ok(banyan_request_start(requests[call]), "start");
      }
      for (int call = kCalls; call-- > 0;) {
        if (!self.expect_ok(banyan_request_wait(requests[call]), "wait")) return;
        self.expect(vectors[call]->values() == sum_of(gpu, self.size(), kCount, round * 10 + call),
                    fmt::format("call {} of round {}", call, round));
      }
    }
    self.expect(windows_of(self, comm) >= 10, "two of each round but the first");
    for (banyan_request_t request : requests)
      self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

// A communicator of some ranks has windows of its own.
TEST_P(WindowCalls, AreOfSplitsToo) {
  run_with_windows(4, [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    Vector vector(gpu, kLeast, true);
    for (int call = 0; call < 2; ++call)
      if (!add_up(self, comm, gpu, vector, kLeast, call)) return;
    banyan_comm_t half = nullptr;
    if (!self.expect_ok(banyan_comm_split(comm, self.rank() % 2, 0, &half, nullptr), "split"))
      return;
    std::vector<float> wanted(kLeast);
    for (int call = 0; call < 3; ++call) {
      vector.fill(self.rank(), call);
      self.expect_ok(
          banyan_allreduce(vector.data(), vector.data(), kLeast, BANYAN_FLOAT32, BANYAN_SUM, half),
          "allreduce of a half");
      for (const int rank : {self.rank() % 2, self.rank() % 2 + 2}) {
        Vector given(gpu, kLeast, false);
        given.fill(rank, call);
        const std::vector<float>& values = given.values();
        for (size_t i = 0; i < kLeast; ++i)
          wanted[i] = rank < 2 ? values[i] : wanted[i] + values[i];
      }
      self.expect(vector.values() == wanted, "the sum of a half");
    }
    self.expect(windows_of(self, half) == 2, "two of three calls of the half");
    self.leave(half);
    add_up(self, comm, gpu, vector, kLeast, 9);
  });
}

// A rank that has loaded no driver has no window, and the others know it before any call.
TEST_P(WindowCalls, AreNotWhereARankKnowsNoGpu) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads have loaded the same libraries";
  run(2, [](Rank& self) {
    std::optional<RankGpu> early;
    if (self.rank() == 0) early.emplace(self);
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    RankGpu gpu(self);
    Vector vector(gpu, kLeast, true);
    for (int call = 0; call < 3; ++call) add_up(self, comm, gpu, vector, kLeast, call);
    self.expect(windows_of(self, comm) == 0, "no call went by windows");
    self.leave(comm);
  });
}

TEST_P(WindowCalls, AreExplained) {
  run_with_windows(2, [](Rank& self, banyan_comm_t comm, RankGpu&) {
    const auto explained = [&](size_t count) {
      banyan_call_t call = BANYAN_CALL_INIT;
      static float memory[1];
      call.send = call.recv = memory;
      call.count = count;
      size_t bytes = 0;
      self.expect_ok(banyan_explain(comm, &call, nullptr, &bytes), "explain");
      std::string text(bytes, '\0');
      self.expect_ok(banyan_explain(comm, &call, text.data(), &bytes), "explain");
      return text.find("by the memory of GPUs that all ranks of the host may read") !=
             std::string::npos;
    };
    self.expect(explained(kLeast), "a call that goes by windows");
    self.expect(!explained(kLeast - 1), "a call that does not");
  });
}

// Whoever names another algorithm gets it.
TEST_P(WindowCalls, AreNotWhereAnotherAlgorithmIsNamed) {
  run_with_windows(2,
                   [](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
                     Vector vector(gpu, kLeast, true);
                     for (int call = 0; call < 3; ++call)
                       add_up(self, comm, gpu, vector, kLeast, call);
                     self.expect(windows_of(self, comm) == 0, "no call went by windows");
                   },
                   {.limit_s = 60, .environment = {{"BANYAN_ALGO", "allreduce:ring"}}});
}

// A rank is killed while the others read its window, or it reads theirs.
TEST_P(WindowCalls, EndWhereARankDies) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  for (uint64_t trial = 0; trial < 6; ++trial) kill_one(mix(77 + trial), 2, [](RankGpu&) {});
}

// A rank aborts and frees all that it has, at any time.
TEST_P(WindowCalls, EndWhereARankGivesUp) {
  for (int trial = 0; trial < 8; ++trial)
    run(3, [trial](Rank& self) {
      RankGpu gpu(self);
      banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
      if (comm == nullptr) return;
      {
        Vector vector(gpu, 200000, true);
        banyan_result_t result = BANYAN_SUCCESS;
        for (int call = 0; result == BANYAN_SUCCESS; ++call) {
          if (self.rank() == trial % 3 && call == 2 + trial / 3) {
            self.expect_ok(banyan_comm_abort(comm), "abort");
            break;
          }
          result = banyan_allreduce(vector.data(), vector.data(), 200000, BANYAN_FLOAT32,
                                    BANYAN_MAX, comm);
        }
        if (self.rank() != trial % 3) self.expect_code(result, BANYAN_ERR_PEER_LOST, "allreduce");
      }
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
      // The GPU goes on to work.
      Vector after(gpu, 10, true);
      after.fill(0, 0);
      self.expect(after.values().size() == 10, "memory of the GPU");
    });
}

INSTANTIATE_TEST_SUITE_P(Kinds, WindowCalls, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::windows_test
