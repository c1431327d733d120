// Some ranks cannot go through with a split: the others are told why, at once, and the parent goes
// on; or the parent fails meanwhile, and the split ends with its failure.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/ranks/ranks_fixture.h"
#include "tests/support/forbid.h"

namespace banyan::test::splits_test {
namespace {

class Splits : public WithRanks {};

// The victim can open so few descriptors more. What they are enough for is no matter here.
void split_with(Rank& self, int victim, int spare) {
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  self.verify(comm, 10, 1);
  banyan_comm_t child = nullptr;
  self.where(fmt::format("split, {} descriptors for rank {}", spare, victim));
  const TimePoint begin = Clock::now();
  {
    std::optional<FewDescriptors> few;
    if (self.rank() == victim) few.emplace(spare);
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.init_timeout_s = 20 * time_factor();
    const banyan_result_t result = banyan_comm_split(comm, 0, 0, &child, &config);
    self.report(comm, result, seconds_since(begin));
    self.meet();
    if (child != nullptr) self.verify(child, 10, 2);
  }
  if (child != nullptr) self.leave(child);
  self.where("the parent afterwards");
  self.verify(comm, 10, 3);
  if (self.expect_ok(banyan_comm_split(comm, 0, 0, &child, nullptr), "another split")) {
    self.verify(child, 10, 4);
    self.leave(child);
  }
  self.leave(comm);
}

TEST_P(Splits, TellAllOfARankWithoutDescriptors) {
  for (const int victim : {0, 1, 2})
    for (const int spare : {FewDescriptors::kNone, 0, 1, 2, 3, 5, 7, 9, 11, 13, 15, 17}) {
      Job job(GetParam(), 3, [&](Rank& self) { split_with(self, victim, spare); });
      job.finish();
      for (int rank = 0; rank < 3; ++rank) {
        const Outcome& outcome = job.outcome(rank);
        ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
        EXPECT_EQ(outcome.code, job.outcome(victim).code) << outcome.text;
        EXPECT_LT(outcome.seconds, 5 * time_factor());
        if (outcome.code == BANYAN_SUCCESS) continue;
        EXPECT_EQ(outcome.code, BANYAN_ERR_SYSTEM) << outcome.text;
        EXPECT_TRUE(rank == victim ||
                    outcome.text.find(fmt::format("rank {}: ", victim)) != std::string::npos)
            << outcome.text;
      }
      EXPECT_TRUE(spare > 1 || job.outcome(victim).code != BANYAN_SUCCESS) << "too easy";
      if (HasFailure()) return;
    }
}

// Ranks of other colours, and those of none, notice nothing.
TEST_P(Splits, OfOtherColoursGoOn) {
  Job job(GetParam(), 4, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    banyan_comm_t child = nullptr;
    const int colors[] = {5, 5, 7, BANYAN_NO_COLOR};
    {
      std::optional<FewDescriptors> few;
      if (self.rank() == 1) few.emplace(0);
      self.report(comm, banyan_comm_split(comm, colors[self.rank()], 0, &child, nullptr));
    }
    if (child != nullptr) self.leave(child);
    self.verify(comm, 10, 3);
    self.leave(comm);
  });
  job.finish();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.outcome(rank).code, rank < 2 ? BANYAN_ERR_SYSTEM : BANYAN_SUCCESS)
        << job.outcome(rank).text;
}

// Rank 1 does not get to where the new ranks meet, or not to rank 0 from there, and tries again and
// again. Then the parent fails, in one of three ways.
enum class End : uint8_t { kKilled, kAborted, kAbortedHere };

constexpr unsigned kEverywhere = 0;
// The length of the address of a local socket has these bits, and that of no other address.
constexpr unsigned kLocal = 34;

void split_until(Rank& self, End end, unsigned connections) {
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  self.verify(comm, 10, 1);
  if (self.rank() == 1)
    self.expect(forbid(SYS_connect, connections, EAGAIN), "keeping connections from being made");
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.init_timeout_s = 20 * time_factor();
  std::thread other;
  if ((self.rank() == 0 && end == End::kAbortedHere) || (self.rank() == 1 && end == End::kAborted))
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
  self.expect(child == nullptr, "no child of a failed parent");
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
}

TEST_P(Splits, EndWithTheirParent) {
  for (const unsigned connections : {kEverywhere, kLocal})
    for (const End end : {End::kKilled, End::kAborted, End::kAbortedHere}) {
      Job job(GetParam(), 3, [&](Rank& self) { split_until(self, end, connections); });
      if (end == End::kKilled) {
        ASSERT_TRUE(job.wait_for_marks(1, 20));
        job.wait(0.3);
        job.signal(1, SIGKILL);
      }
      job.finish();
      const int culprit = end == End::kAbortedHere ? 0 : 1;
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == 1 && end == End::kKilled) continue;
        const Outcome& outcome = job.outcome(rank);
        const bool itself = rank == culprit;
        EXPECT_EQ(outcome.code, itself ? BANYAN_ERR_ABORTED : BANYAN_ERR_PEER_LOST) << outcome.text;
        EXPECT_EQ(outcome.failed_rank, itself ? -1 : culprit) << outcome.text;
        EXPECT_LT(outcome.seconds, 5 * time_factor());
      }
    }
}

// Threads share their descriptors.
INSTANTIATE_TEST_SUITE_P(All, Splits, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::splits_test
