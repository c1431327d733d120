// The engine runs over a transport of moods: whatever order things happen in, the results are those
// of the steps in program order.
// SPDX-License-Identifier: Apache-2.0

#include "src/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/algorithms.h"
#include "tests/engine/engine_parts.h"
#include "tests/support/kernels_reference.h"

namespace banyan::test::engine_test {
namespace {

struct Arithmetics {
  DataType type;
  ReduceOp op;
};

TEST(Engine, DoesWhatTheStepsSayForEveryAlgorithm) {
  constexpr Arithmetics kArithmetics[] = {{DataType::kFloat32, ReduceOp::kSum},
                                          {DataType::kBfloat16, ReduceOp::kAvg},
                                          {DataType::kInt8, ReduceOp::kPreMulSum},
                                          {DataType::kFloat8E4m3, ReduceOp::kMax}};
  unsigned round = 0;
  for (size_t algorithm = 0; algorithm < algorithms().size(); ++algorithm)
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      if (!algorithms()[algorithm].fits(collective)) continue;
      for (const int ranks : {1, 2, 3, 5, 8})
        for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{37}, uint64_t{500}}) {
          if (ranks == 8 && count == 37) continue;
          ++round;
          const auto [type, op] = kArithmetics[round % std::size(kArithmetics)];
          Calls calls = make_calls(collective, type, op, ranks, count, round % 3 == 0,
                                   static_cast<int>(algorithm), round);
          Calls expected = calls;
          ASSERT_TRUE(interpret(expected, best_kernels()));
          Moods moods = all_moods()[round % all_moods().size()];
          moods.seed += round;
          Engines engines(ranks, moods);
          auto executions = executions_of(calls);
          for (int rank = 0; rank < ranks; ++rank)
            engines.start(rank, calls, *executions[static_cast<size_t>(rank)], 1);
          ASSERT_TRUE(engines.run()) << algorithms()[algorithm].name << " " << name_of(collective)
                                     << " P=" << ranks << " n=" << count;
          ASSERT_EQ(calls.outputs, expected.outputs)
              << algorithms()[algorithm].name << " " << name_of(collective) << " P=" << ranks
              << " n=" << count;
          ASSERT_EQ(calls.inputs, expected.inputs) << "an input was written";
        }
    }
}

// Several calls in flight, started again and again; ranks start them at different moments.
TEST(Engine, KeepsCallsInFlightApart) {
  constexpr int kRanks = 4, kRounds = 6;
  for (const Moods& moods : all_moods()) {
    Engines engines(kRanks, moods);
    std::vector<Calls> calls;
    for (const std::string_view name : {"ring", "recursive_doubling", "circulant", "direct"})
      calls.push_back(make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, kRanks,
                                 501 + calls.size(), false, find_algorithm(name), calls.size()));
    std::vector<std::vector<std::unique_ptr<Execution>>> executions;
    for (const Calls& call : calls) executions.push_back(executions_of(call));
    uint32_t number = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Calls> expected = calls;
      for (Calls& call : expected) ASSERT_TRUE(interpret(call, best_kernels()));
      for (int rank = 0; rank < kRanks; ++rank) {
        for (size_t i = 0; i < calls.size(); ++i)
          engines.start(rank, calls[i], *executions[i][static_cast<size_t>(rank)],
                        number + static_cast<uint32_t>(i));
        Trouble trouble;
        for (int turns = rank; turns > 0; --turns)
          ASSERT_TRUE(engines.of(rank).progress(trouble).ok());
        ASSERT_FALSE(trouble);
      }
      number += static_cast<uint32_t>(calls.size());
      ASSERT_TRUE(engines.run());
      for (size_t i = 0; i < calls.size(); ++i) {
        ASSERT_EQ(calls[i].outputs, expected[i].outputs) << "call " << i;
        for (const auto& execution : executions[i]) ASSERT_TRUE(execution->done());
      }
    }
  }
}

// Keeps what is posted, and never completes it.
class Keeper final : public Transport {
 public:
  explicit Keeper(int busy_peer = -1) : busy_peer_(busy_peer) {}

  std::string_view name() const override { return "keeper"; }
  Status post(const Transfer& transfer) override {
    if (transfer.peer == busy_peer_) return {Code::kBusy, ""};
    posted.push_back(transfer);
    return {};
  }
  Result<size_t> poll(std::span<Completion>) override { return size_t{0}; }
  std::optional<Envelope> peek(int, Lane) override { return std::nullopt; }
  bool arm() override { return true; }
  void disarm() override {}
  int descriptor() const override { return -1; }

  std::vector<Transfer> posted;

 private:
  int busy_peer_;
};

// What rank 0 posts of a call before anything comes, and whether the call ends.
struct Posted {
  std::vector<Transfer> transfers;
  bool done = false;
};
Posted posted_by(Calls& calls, std::unique_ptr<Keeper> owned) {
  const Keeper& keeper = *owned;
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::move(owned));
  std::vector<int> routes(calls.schedules.size(), 0);
  routes[0] = -1;
  Engine engine(std::move(transports), std::move(routes), best_kernels());
  Execution execution(calls.schedules[0]);
  engine.start(execution, calls.spaces(0), calls.arithmetic, Engines::envelope(calls, 1),
               Lane::kCollective);
  Trouble trouble;
  for (int turn = 0; turn < 5; ++turn) EXPECT_TRUE(engine.progress(trouble).ok());
  return {keeper.posted, execution.done()};
}

// One port is always full: the others go on.
TEST(Engine, LetsABusyPortBlockNoOther) {
  Calls calls = make_calls(Collective::kAlltoall, DataType::kInt8, ReduceOp::kSum, 3, 5, false,
                           find_algorithm("direct"), 1);
  const Posted posted = posted_by(calls, std::make_unique<Keeper>(1));
  EXPECT_GT(posted.transfers.size(), 1U);
  EXPECT_FALSE(posted.done);
}

// What the call only reads was given; in place it reads nothing that it does not write, too.
TEST(Engine, SaysWhatACallDoesWithAMessage) {
  struct Case {
    Collective collective;
    bool in_place;
    uint64_t output, caller;  // in blocks
    bool sums, given;
    bool has_result;  // one of them at the least
  };
  constexpr uint64_t kBlock = 64 << 10;
  const Case cases[] = {
      {Collective::kAlltoall, false, 2, 4, false, true, false},  // comes to scratch
      {Collective::kAllreduce, false, 2, 4, true, true, true},
      {Collective::kAllreduce, true, 2, 2, true, false, false},
      {Collective::kAllgather, true, 2, 2, false, false, false},
  };
  for (const Case& row : cases) {
    const uint64_t count = row.collective == Collective::kAllreduce ? 2 * kBlock : kBlock;
    Calls calls = make_calls(row.collective, DataType::kInt8, ReduceOp::kSum, 2, count,
                             row.in_place, find_algorithm("direct"), 1);
    const Posted posted = posted_by(calls, std::make_unique<Keeper>());
    ASSERT_GE(posted.transfers.size(), 2U);
    bool has_result = false;
    for (const Transfer& transfer : posted.transfers) {
      const Usage& usage = transfer.usage;
      const bool sends = transfer.direction == Direction::kSend;
      SCOPED_TRACE(std::string(name_of(row.collective)) + (row.in_place ? " in place" : ""));
      EXPECT_EQ(usage.output_bytes, row.output * kBlock);
      EXPECT_EQ(usage.caller_bytes, row.caller * kBlock);
      EXPECT_EQ(usage.sums, row.sums);
      EXPECT_EQ(usage.given, sends && row.given);
      EXPECT_FALSE(sends && usage.is_result);
      has_result = has_result || usage.is_result;
    }
    EXPECT_EQ(has_result, row.has_result) << name_of(row.collective);
  }
}

TEST(Engine, ReportsAMismatchWithBothEnvelopes) {
  Engines engines(2, {});
  Calls calls = make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 2, 10, false,
                           find_algorithm("ring"), 1);
  Envelope other = Engines::envelope(calls, 1);
  other.signature.count = 11;
  other.bytes = 44;
  engines.hub().inject(1, 0, Lane::kCollective, other);
  const std::vector<Bytes> before = calls.outputs;
  Execution execution(calls.schedules[0]);
  engines.start(0, calls, execution, 1);
  Trouble trouble;
  for (int turn = 0; turn < 10 && !trouble; ++turn)
    ASSERT_TRUE(engines.of(0).progress(trouble).ok());
  EXPECT_EQ(trouble.code, Code::kMismatch);
  EXPECT_EQ(trouble.peer, 1);
  EXPECT_EQ(trouble.seen, other);
  EXPECT_EQ(trouble.expected.signature.count, 10u);
  EXPECT_EQ(calls.outputs, before) << "written before agreement";
}

// A rank that waits for somebody else finds the one that makes another call.
TEST(Engine, FindsAMessageOfAnotherCall) {
  Engines engines(4, {});
  Calls calls = make_calls(Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum, 4, 10, false,
                           find_algorithm("ring"), 1);
  Execution execution(calls.schedules[0]);
  engines.start(0, calls, execution, 7);
  EXPECT_FALSE(engines.of(0).find_other_call());
  Envelope same = Engines::envelope(calls, 7);
  engines.hub().inject(2, 0, Lane::kCollective, same);
  EXPECT_FALSE(engines.of(0).find_other_call());
  Envelope later = same;
  later.call = 8;
  later.signature.collective = Collective::kBarrier;
  Envelope other = same;
  other.signature.collective = Collective::kBarrier;
  for (const Envelope& envelope : {later, other}) {
    Engines fresh(4, {});
    Execution again(calls.schedules[0]);
    fresh.start(0, calls, again, 7);
    fresh.hub().inject(3, 0, Lane::kCollective, envelope);
    const Trouble found = fresh.of(0).find_other_call();
    EXPECT_EQ(static_cast<bool>(found), envelope.call == 7);
    if (found) {
      EXPECT_EQ(found.peer, 3);
    }
  }
}

TEST(Engine, ReportsALostPeerAndCanBeCancelled) {
  Engines engines(3, {});
  Calls calls = make_calls(Collective::kAllgather, DataType::kInt32, ReduceOp::kSum, 3, 10, false,
                           find_algorithm("direct"), 1);
  engines.hub().lose(0, 2);
  Execution execution(calls.schedules[0]);
  engines.start(0, calls, execution, 1);
  Trouble trouble;
  for (int turn = 0; turn < 10 && !trouble; ++turn)
    ASSERT_TRUE(engines.of(0).progress(trouble).ok());
  EXPECT_EQ(trouble.code, Code::kPeerLost);
  EXPECT_EQ(trouble.peer, 2);
  EXPECT_FALSE(engines.of(0).idle());
  engines.of(0).cancel();
  EXPECT_TRUE(engines.of(0).idle());
  EXPECT_TRUE(execution.done());
  Trouble none;
  const Result<bool> after = engines.of(0).progress(none);
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(none);
}

// Whatever their numbers: those of collectives and of messages have nothing to do with each other.
TEST(Engine, KnowsWhomTheCallThatIsDueWaitsFor) {
  Calls ring = make_calls(Collective::kAllgather, DataType::kInt8, ReduceOp::kSum, 3, 10, false,
                          find_algorithm("ring"), 1);
  Calls star = make_calls(Collective::kBarrier, DataType::kInt8, ReduceOp::kSum, 3, 0, false,
                          find_algorithm("star"), 2);
  const auto waits_for = [&](std::optional<double> ring_s, std::optional<double> star_s) {
    Engines engines(3, {});
    Execution one(ring.schedules[0]), other(star.schedules[0]);
    if (ring_s) one.deadline = deadline_after(*ring_s);
    if (star_s) other.deadline = deadline_after(*star_s);
    if (ring_s) engines.start(0, ring, one, 7);
    if (star_s) engines.start(0, star, other, 1);
    Trouble trouble;
    for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(engines.of(0).progress(trouble).ok());
    const int peer = engines.of(0).waiting_for();
    engines.of(0).cancel();
    return peer;
  };
  const int of_ring = waits_for(10, {});
  const int of_star = waits_for({}, 10);
  ASSERT_NE(of_ring, of_star);
  EXPECT_EQ(waits_for(10, 20), of_ring);
  EXPECT_EQ(waits_for(20, 10), of_star);
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_EQ(waits_for(never, never), of_ring) << "the one that was started first";
}

TEST(Engine, KnowsWhomTheOldestCallWaitsFor) {
  Engines engines(3, {});
  EXPECT_EQ(engines.of(0).waiting_for(), -1);
  Calls first = make_calls(Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 3, 10, false,
                           find_algorithm("direct"), 1);
  Calls second = make_calls(Collective::kBarrier, DataType::kInt8, ReduceOp::kSum, 3, 0, false,
                            find_algorithm("direct"), 2);
  Execution broadcast(first.schedules[0]), barrier(second.schedules[0]);
  engines.start(0, first, broadcast, 1);  // root is rank 1, and everybody must agree
  engines.start(0, second, barrier, 2);
  Trouble trouble;
  for (int turn = 0; turn < 3; ++turn) ASSERT_TRUE(engines.of(0).progress(trouble).ok());
  EXPECT_FALSE(engines.of(0).has_call_before(1));
  EXPECT_TRUE(engines.of(0).has_call_before(2));
  const int peer = engines.of(0).waiting_for();
  EXPECT_TRUE(peer == 1 || peer == 2) << peer;
  engines.of(0).cancel();
  EXPECT_EQ(engines.of(0).waiting_for(), -1);
  EXPECT_FALSE(engines.of(0).has_call_before(100));
}

// Starting again allocates nothing: an execution is as good as new.
TEST(Engine, RestartsAfterCancel) {
  Moods moods{4, true, true, 9};
  Calls calls = make_calls(Collective::kAllreduce, DataType::kFloat64, ReduceOp::kSum, 3, 100,
                           false, find_algorithm("circulant"), 1);
  auto executions = executions_of(calls);
  {
    Engines doomed(3, moods);
    doomed.start(0, calls, *executions[0], 1);
    doomed.of(0).cancel();
  }
  Calls expected = calls;
  ASSERT_TRUE(interpret(expected, best_kernels()));
  Engines engines(3, moods);
  for (int rank = 0; rank < 3; ++rank)
    engines.start(rank, calls, *executions[static_cast<size_t>(rank)], 1);
  ASSERT_TRUE(engines.run());
  EXPECT_EQ(calls.outputs, expected.outputs);
}

}  // namespace
}  // namespace banyan::test::engine_test
