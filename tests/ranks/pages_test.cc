// A call makes no page faults: what it touches of the library's memory, the first call like it has
// touched, or the library before it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <sys/resource.h>

#include <vector>

#include "tests/ranks/ranks_fixture.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::pages_test {
namespace {

struct Case {
  size_t bytes;
  banyan_datatype_t type;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const size_t bytes : {size_t{4}, size_t{64}, size_t{4} << 10, size_t{16} << 10,
                             size_t{64} << 10, size_t{1} << 20, size_t{17} << 20})
    for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_BFLOAT16})
      all.push_back({bytes, type});
  return all;
}

// Counts the page faults of this thread so far.
long faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

void check(Rank& self, const Case& tested) {
  const int calls = tested.bytes > size_t{1} << 20 ? 8 : 20;
  const size_t count = tested.bytes / (tested.type == BANYAN_FLOAT32 ? 4 : 2);
  const auto text =
      fmt::format("{} bytes of {}", tested.bytes, tested.type == BANYAN_FLOAT32 ? "fp32" : "bf16");
  self.where(text);
  const banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  std::vector<std::byte> from(tested.bytes), to(tested.bytes);
  const auto call = [&] {
    return banyan_allreduce(from.data(), to.data(), count, tested.type, BANYAN_SUM, comm);
  };
  self.expect_ok(call(), "the first call");
  self.meet();
  const long before = faults();
  for (int i = 0; i < calls; ++i) self.expect_ok(call(), "a call");
  const long after = faults();
  self.expect(after == before, fmt::format("{}: {} page faults", text, after - before));
  self.leave(comm);
}

class Pages : public WithRanks {};

TEST_P(Pages, AreTouchedByTheFirstCallAtTheLatest) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers touch pages of their own";
  for (const int size : {2, 4})
    run(size,
        [](Rank& self) {
          for (const Case& tested : cases()) check(self, tested);
        },
        {.limit_s = 100});
}

INSTANTIATE_TEST_SUITE_P(All, Pages, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::pages_test
