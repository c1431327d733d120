// Every collective runs over every transport, with ranks as threads and as processes: results by
// exact references, and everything else as it was.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "algorithms/algorithms.h"
#include "tests/ranks/over_transports.h"
#include "tests/ranks/ranks.h"
#include "tests/ranks/ranks_cases.h"

namespace banyan::test::collectives_test {
namespace {

class Collectives : public OverTransports {
 protected:
  bool quick() const {
    const auto& [kind, transport] = GetParam();
    return kThreadSanitizer || transport == "ucx" || (kind == Kind::kThreads && transport == "shm");
  }

  // As processes all numbers of ranks.
  bool brief() const { return GetParam().kind == Kind::kThreads; }

  void run_each(std::initializer_list<size_t> counts, JobOptions options);

  // Runs `body` on a communicator of `size` ranks over the transport.
  void run(int size, const std::function<bool(Rank&, Bench&)>& body, JobOptions options = {}) {
    const std::string transport(GetParam().transport);
    run_ranks(
        GetParam().kind, size,
        [&](Rank& self) {
          banyan_config_t config = BANYAN_CONFIG_INIT;
          config.transports = transport.c_str();
          config.timeout_s = 20 * time_factor();
          banyan_comm_t comm = self.join(&config);
          if (comm == nullptr) return;
          Bench bench(self, comm);
          if (!body(self, bench)) {
            banyan_comm_abort(comm);
            banyan_comm_destroy(comm);
            return;
          }
          self.agree(bench.digest(), "results that every rank holds");
          self.leave(comm);
        },
        std::move(options));
  }
};

// Both ways around, at the roots given.
bool run_ways(Bench& bench, Case call, const Table& table, const std::set<int>& roots) {
  for (const int root : has_root(call.collective) ? roots : std::set<int>{0}) {
    call.root = root;
    for (const bool in_place : {false, true}) {
      call.in_place = in_place;
      call.skew = (call.skew + 3) % 8;
      if (!bench.run(call, table)) return false;
    }
  }
  return true;
}

TEST_P(Collectives, HaveAwkwardCounts) {
  for (int size = 1; size <= (quick() ? 4 : 9); ++size) {
    if (brief() && size > 5 && size < 9) continue;
    const Table table(DataType::kFloat32, ReduceOp::kSum, size, 1);
    run(size, [&](Rank&, Bench& bench) {
      const auto ranks = static_cast<size_t>(size);
      const std::set<size_t> counts{0, 1, 2, 3, 7, ranks - 1, ranks, ranks + 1, 63, 1000};
      for (const Collective collective : kCollectives)
        for (const size_t count : counts)
          if (!run_ways(bench, {.collective = collective, .count = count}, table, {0, size - 1}))
            return false;
      return true;
    });
  }
}

TEST_P(Collectives, HaveAllTypesAndOperations) {
  for (const int size : quick() ? std::vector<int>{3} : std::vector<int>{2, 5}) {
    std::vector<Table> tables;
    for (const DataType type : kTypes)
      for (const ReduceOp op : kOps) tables.emplace_back(type, op, size, 2);
    run(size, [&](Rank&, Bench& bench) {
      size_t skew = 0;
      for (const Table& table : tables)
        for (const Collective collective : kCollectives) {
          if (!reduces(collective) && table.op() != ReduceOp::kSum) continue;
          for (const size_t count : {size_t{1}, size_t{63}, size_t{1000}}) {
            const Case call{.collective = collective,
                            .count = count,
                            .root = static_cast<int>(count) % size,
                            .in_place = count == 63,
                            .skew = skew++ % 8,
                            .twice = count == 1000 && collective == Collective::kAllreduce};
            if (!bench.run(call, table)) return false;
          }
        }
      return true;
    });
  }
}

TEST_P(Collectives, HaveEveryAlgorithm) {
  for (const int size : quick() ? std::vector<int>{3} : std::vector<int>{2, 3, 5, 8}) {
    if (brief() && size == 8) continue;
    const Table tables[] = {Table(DataType::kFloat32, ReduceOp::kSum, size, 3),
                            Table(DataType::kBfloat16, ReduceOp::kPreMulSum, size, 3),
                            Table(DataType::kInt8, ReduceOp::kMax, size, 3)};
    run(size, [&](Rank&, Bench& bench) {
      for (const Algorithm& algorithm : algorithms()) {
        const std::string name(algorithm.name);
        for (const Collective collective : kCollectives) {
          if (!algorithm.fits(collective)) continue;
          for (const Table& table : tables)
            for (const size_t count : {size_t{1}, static_cast<size_t>(size) + 1, size_t{5000}}) {
              const Case call{.collective = collective,
                              .count = count,
                              .root = size / 2,
                              .in_place = (count + static_cast<size_t>(table.type())) % 2 == 0,
                              .skew = count % 3,
                              .algorithm = name.c_str(),
                              .twice = count == 5000};
              if (!bench.run(call, table)) return false;
            }
        }
      }
      return true;
    });
  }
}

TEST_P(Collectives, HaveParametersOfAlgorithms) {
  const Table tables[] = {Table(DataType::kFloat32, ReduceOp::kSum, 4, 3),
                          Table(DataType::kBfloat16, ReduceOp::kPreMulSum, 4, 3)};
  run(4, [&](Rank&, Bench& bench) {
    for (const char* algorithm :
         {"ring(seg=256)", "ring(seg=512)", "circulant(seg=1)", "pairwise(seg=100)",
          "double_tree(seg=1K)", "torus(dims=4)", "torus(dims=2x2)", "torus(dims=2x3),ring"})
      for (const Table& table : tables)
        for (const size_t count : {size_t{1}, size_t{5000}})
          if (!bench.run({.count = count, .algorithm = algorithm, .twice = true}, table))
            return false;
    return bench.run(
        {.collective = Collective::kBroadcast, .count = 5000, .algorithm = "ring(seg=300)"},
        tables[0]);
  });
}

// More than the transports keep for a rank that comes late, in place and not.
TEST_P(Collectives, HaveLargeMessages) {
  const size_t large = size_t{quick() ? 1U : 3U} << 20;
  for (const int size : {2, 3}) {
    if (brief() && size == 2) continue;
    const Table sums(DataType::kFloat32, ReduceOp::kSum, size, 4);
    const Table narrow(DataType::kBfloat16, ReduceOp::kAvg, size, 4);
    run(size, [&](Rank&, Bench& bench) {
      for (const Collective collective : kCollectives) {
        const bool blocks = !has_root(collective) && collective != Collective::kAllreduce;
        const size_t parts = blocks ? static_cast<size_t>(size) : 1;
        for (const size_t bytes : {size_t{65537} * 4, large})
          if (!run_ways(bench, {.collective = collective, .count = bytes / 4 / parts}, sums,
                        {size - 1}))
            return false;
      }
      return run_ways(bench, {.count = large / 2 + 1}, narrow, {0});
    });
  }
}

// Messages are cut into segments from 16 MiB on; the second size parts evenly in nothing. Some are
// in memory that the ranks of a host read and write in place.
TEST_P(Collectives, HaveHugeMessages) {
  const size_t unit = (size_t{1} << (quick() ? 18 : 20)) / 4;
  const bool has_shared = GetParam().transport == "shm";
  const size_t odd = (brief() ? 17 : 33) * unit + 1;
  for (const auto& [size, count] : {std::pair(2, 16 * unit), std::pair(3, odd)}) {
    if (brief() && size == 2) continue;
    const Table table(DataType::kFloat32, ReduceOp::kSum, size, 6);
    run(size, [&, size = size, count = count](Rank&, Bench& bench) {
      const size_t block = count / static_cast<size_t>(size);
      const Case gather{.collective = Collective::kAllgather, .count = block};
      const Case scatter{
          .collective = Collective::kReduceScatter, .count = block, .shared = has_shared};
      const Case broadcast{.collective = Collective::kBroadcast, .count = count, .skew = 3};
      const Case ring{.count = count, .in_place = true, .algorithm = "ring"};
      for (const Case& call : {gather, scatter, broadcast, ring})
        if (!bench.run(call, table)) return false;
      return run_ways(bench, {.count = count}, table, {}) &&
             (!has_shared || run_ways(bench, {.count = count, .shared = true}, table, {}));
    });
  }
}

// Every collective on three ranks, under those variables.
void Collectives::run_each(std::initializer_list<size_t> counts, JobOptions options) {
  const Table table(DataType::kFloat32, ReduceOp::kSum, 3, 5);
  run(
      3,
      [&](Rank&, Bench& bench) {
        for (const Collective collective : kCollectives)
          for (const size_t count : counts)
            if (!run_ways(bench, {.collective = collective, .count = count}, table, {0, 2}))
              return false;
        return true;
      },
      std::move(options));
}

TEST_P(Collectives, WorkWithoutTheCheck) {
  run_each({0, 1, 1000, 100000}, {.environment = {{"BANYAN_CHECK", "off"}}});
}

// Only there long messages have two ways. Whichever is the faster on this machine.
class CollectivesInMemory : public Collectives {};

TEST_P(CollectivesInMemory, TakeEitherWayOfLongMessages) {
  for (const char* way : {"1", "never"})
    run_each({7, 1000, 20001, 600000}, {.environment = {{"BANYAN_SINGLE_COPY", way}}});
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, everywhere(), testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(All, CollectivesInMemory,
                         testing::Values(Where{Kind::kThreads, "shm"},
                                         Where{Kind::kProcesses, "shm"}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::collectives_test
