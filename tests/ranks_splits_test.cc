// A split whose parent fails meanwhile: it ends at once, with the parent's failure.
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/ranks_fixture.h"

namespace banyan::test {
namespace {

class Splits : public WithRanks {};

// Rank 1 does not come to where the new ranks meet, since it can open no socket. Then the parent
// fails, in one of three ways.
enum class End : uint8_t { kKilled, kAborted, kAbortedHere };

void split_until(Rank& self, End end) {
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  self.verify(comm, 10, 1);
  std::optional<FewDescriptors> none;
  if (self.rank() == 1) none.emplace(0);
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.init_timeout_s = 20 * time_factor();
  std::thread other;
  if (self.rank() == 0 && end == End::kAbortedHere)
    other = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // inside split, as a rule
      self.expect_ok(banyan_comm_abort(comm), "abort");
    });
  self.mark(1);
  self.where("split");
  banyan_comm_t child = nullptr;
  const TimePoint begin = Clock::now();
  const banyan_result_t result = banyan_comm_split(comm, 0, 0, &child, &config);
  if (other.joinable()) other.join();
  self.report(comm, result, seconds_since(begin));
  if (self.rank() == 1) {
    if (end == End::kKilled) self.wait_until([] { return false; });
    if (end == End::kAborted) self.expect_ok(banyan_comm_abort(comm), "abort");
    if (end == End::kAbortedHere) wait_for_error(self, comm);
  }
  self.expect(child == nullptr, "no child of a failed parent");
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
}

TEST_P(Splits, EndWithTheirParent) {
  for (const End end : {End::kKilled, End::kAborted, End::kAbortedHere}) {
    Job job(GetParam(), 3, [&](Rank& self) { split_until(self, end); });
    if (end == End::kKilled) {
      ASSERT_TRUE(job.wait_for_marks(1, 20));
      job.wait(0.3);
      job.signal(1, SIGKILL);
    }
    job.finish();
    if (end != End::kKilled) {
      EXPECT_EQ(job.outcome(1).code, BANYAN_ERR_SYSTEM) << job.outcome(1).text;
    }
    const bool here = end == End::kAbortedHere;
    EXPECT_EQ(job.outcome(0).code, here ? BANYAN_ERR_ABORTED : BANYAN_ERR_PEER_LOST)
        << job.outcome(0).text;
    EXPECT_EQ(job.outcome(2).code, BANYAN_ERR_PEER_LOST) << job.outcome(2).text;
    EXPECT_EQ(job.outcome(2).failed_rank, here ? 0 : 1) << job.outcome(2).text;
    for (const int rank : {0, 2}) EXPECT_LT(job.outcome(rank).seconds, 5 * time_factor());
  }
}

// Threads share their descriptors.
INSTANTIATE_TEST_SUITE_P(All, Splits, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test
