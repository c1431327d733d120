// Ranks that share cores: all of them see the same, and choose by it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <sched.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/select.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::cores_test {
namespace {

class Cores : public WithRanks {};

// All ranks of a test on the first core that it may use.
void share_a_core() {
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  CPU_ZERO(&cores);
  CPU_SET(first, &cores);
  ASSERT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
}

std::string explained(Rank& self, banyan_comm_t comm, banyan_collective_t collective,
                      size_t count) {
  std::vector<float> from(count), to(count);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = from.data();
  call.recv = to.data();
  call.count = count;
  call.datatype = BANYAN_FLOAT32;
  std::vector<char> text(4096);
  size_t room = text.size();
  self.expect_ok(banyan_explain(comm, &call, text.data(), &room), "explain");
  return text.data();
}

std::string_view chosen(Collective collective, uint64_t bytes, int ranks, Medium medium) {
  Problem problem;
  problem.collective = collective;
  problem.count = bytes / sizeof(float);
  const Choice choice = choose(problem, ranks, medium, {});
  return algorithms()[static_cast<size_t>(choice.algorithm)].name;
}

TEST_P(Cores, ThatAreSharedDecideTheAlgorithm) {
  struct Case {
    int ranks;
    Medium medium;
  };
  for (const Case& tested : {Case{2, Medium::kSharedCores}, Case{3, Medium::kCrowdedCores}}) {
    const auto told = [&](uint64_t bytes, Medium medium) {
      return chosen(Collective::kAllreduce, bytes, tested.ranks, medium);
    };
    // The first size at which the tables tell the two apart.
    constexpr uint64_t kMost = uint64_t{64} << 20;
    uint64_t bytes = sizeof(float);
    while (bytes < kMost && told(bytes, tested.medium) == told(bytes, Medium::kMemory)) bytes *= 2;
    ASSERT_LT(bytes, kMost) << tested.ranks << " ranks";
    run(tested.ranks, [&](Rank& self) {
      share_a_core();
      const banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      const size_t count = bytes / sizeof(float);
      const std::string text = explained(self, comm, BANYAN_ALLREDUCE, count);
      for (const std::string& part :
           {std::string(" over shm\n"), std::string("\n# in memory: "),
            fmt::format("\na call gets {}: ", told(bytes, tested.medium))})
        self.expect(text.find(part) != std::string::npos,
                    fmt::format("'{}' should be in:\n{}", part, text));
      self.verify(comm, count, 1);
      self.leave(comm);
    });
  }
}

// Threads share their process's cores with the tests after this one.
INSTANTIATE_TEST_SUITE_P(All, Cores, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::cores_test
