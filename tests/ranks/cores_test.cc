// Ranks that share cores: all of them see the same, and choose by it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <sched.h>

#include <string>
#include <vector>

#include "tests/ranks/ranks_fixture.h"

namespace banyan::test {
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

TEST_P(Cores, ThatAreSharedDecideTheAlgorithm) {
  struct Case {
    int ranks;
    banyan_collective_t collective;
    size_t bytes;
    std::string algorithm;
  };
  const std::vector<Case> cases = {
      {2, BANYAN_BROADCAST, size_t{4} << 20, "binomial"},
      {3, BANYAN_ALLREDUCE, size_t{16} << 10, "star"},
  };
  for (const Case& tested : cases)
    run(tested.ranks, [&](Rank& self) {
      share_a_core();
      const banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      const std::string text =
          explained(self, comm, tested.collective, tested.bytes / sizeof(float));
      for (const std::string& part : {std::string(" over shm\n"), std::string("\n# in memory: "),
                                      fmt::format("\na call gets {}: ", tested.algorithm)})
        self.expect(text.find(part) != std::string::npos,
                    fmt::format("'{}' should be in:\n{}", part, text));
      self.verify(comm, tested.bytes / sizeof(float), 1);
      self.leave(comm);
    });
}

// Threads share their process's cores with the tests after this one.
INSTANTIATE_TEST_SUITE_P(All, Cores, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test
