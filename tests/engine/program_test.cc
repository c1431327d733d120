// Lowered programs run beside engines: whoever runs what, and wherever an engine takes over, the
// results are those of the steps in program order.
// SPDX-License-Identifier: Apache-2.0

#include "src/engine/program.h"

#include <gtest/gtest.h>

#include <random>

#include "algorithms/algorithms.h"
#include "tests/engine/engine_parts.h"
#include "tests/engine/shm_engines.h"

namespace banyan::test::program_test {
namespace {

Envelope envelope_of(const Calls& calls, uint32_t number = 0) {
  Envelope envelope;
  envelope.call = number;
  envelope.epoch = kEpoch;
  envelope.signature.collective = calls.problems.front().collective;
  envelope.signature.count = calls.problems.front().count;
  return envelope;
}

// One rank of one call: as a program, until it is handed over.
class Runner {
 public:
  Runner(Engine& engine, Calls& calls, int rank)
      : engine_(engine),
        execution_(calls.schedules[static_cast<size_t>(rank)]),
        program_(Program::lower(calls.schedules[static_cast<size_t>(rank)], calls.arithmetic,
                                envelope_of(calls), engine)) {}

  bool lowered() const { return program_.has_value(); }
  void begin(Calls& calls, int rank, uint32_t number, bool by_program) {
    by_program_ = by_program;
    done_ = false;
    if (by_program) {
      program_->begin(calls.spaces(rank), number);
    } else {
      engine_.start(execution_, calls.spaces(rank), calls.arithmetic, envelope_of(calls, number),
                    Lane::kCollective);
    }
  }
  // Goes on; `give_up`: a program that waits is handed over. False: trouble.
  bool step(bool give_up) {
    if (by_program_) {
      const Program::Stop stop = program_->run();
      done_ = stop == Program::Stop::kDone;
      if (done_ || (stop == Program::Stop::kWaits && !give_up)) return true;
      by_program_ = false;
      ++handed_over_;
      program_->hand_over(engine_, execution_);
    }
    const Result<bool> moved = engine_.progress(trouble_);
    done_ = execution_.done();
    return moved.ok() && !trouble_;
  }
  bool done() const { return done_; }
  int handed_over() const { return handed_over_; }
  const Trouble& trouble() const { return trouble_; }

 private:
  Engine& engine_;
  Execution execution_;
  std::optional<Program> program_;
  Trouble trouble_;
  bool by_program_ = false;
  bool done_ = false;
  int handed_over_ = 0;
};

struct Chances {
  int engine = 0;   // in a hundred ranks, that the engine runs all of it
  int give_up = 0;  // in a hundred waits, that the program is handed over
};

// Runs one call on all ranks, in any order; how often a program was handed over.
int run_all(ShmEngines& engines, Calls& calls, const Chances& chances, std::mt19937& random,
            std::vector<std::unique_ptr<Runner>>& runners, uint32_t number) {
  const auto chance = [&](int in_hundred) { return static_cast<int>(random() % 100) < in_hundred; };
  for (int rank = 0; rank < engines.size(); ++rank)
    runners[static_cast<size_t>(rank)]->begin(calls, rank, number, !chance(chances.engine));
  const auto done = [](const auto& runner) { return runner->done(); };
  for (int turns = 0; !std::all_of(runners.begin(), runners.end(), done); ++turns) {
    Runner& runner = *runners[random() % runners.size()];
    if (!runner.done()) {
      EXPECT_TRUE(runner.step(chance(chances.give_up)));
    }
    if (turns > 100000 || testing::Test::HasFailure()) {
      ADD_FAILURE() << "stuck";
      break;
    }
  }
  int handed_over = 0;
  for (const auto& runner : runners) handed_over += runner->handed_over();
  return handed_over;
}

std::vector<std::unique_ptr<Runner>> runners_of(ShmEngines& engines, Calls& calls) {
  std::vector<std::unique_ptr<Runner>> runners;
  for (int rank = 0; rank < engines.size(); ++rank) {
    runners.push_back(std::make_unique<Runner>(engines.of(rank), calls, rank));
    if (!runners.back()->lowered()) return {};
  }
  return runners;
}

TEST(Program, DoesWhatTheStepsSayForEveryAlgorithm) {
  constexpr Chances kAll[] = {{0, 0}, {50, 0}, {0, 20}, {30, 5}};
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8};
  std::mt19937 random(4);
  unsigned round = 0, lowered = 0;
  int handed_over = 0;
  for (const int ranks : {1, 2, 3, 5, 8}) {
    ShmEngines engines(ranks);
    uint32_t number = 0;
    for (size_t algorithm = 0; algorithm < algorithms().size(); ++algorithm)
      for (int c = 0; c < kCollectiveCount; ++c) {
        const auto collective = static_cast<Collective>(c);
        if (!algorithms()[algorithm].fits(collective)) continue;
        for (const uint64_t count : {0U, 1U, 7U, 13U, 250U}) {
          ++round;
          const DataType type = kTypes[round % std::size(kTypes)];
          Calls calls = make_calls(collective, type, ReduceOp::kSum, ranks, count, round % 3 == 0,
                                   static_cast<int>(algorithm), round);
          auto runners = runners_of(engines, calls);
          if (runners.empty()) continue;
          ++lowered;
          for (int again = 0; again < 2; ++again) {
            Calls expected = calls;
            ASSERT_TRUE(interpret(expected, best_kernels()));
            handed_over +=
                run_all(engines, calls, kAll[round % std::size(kAll)], random, runners, ++number);
            ASSERT_EQ(calls.outputs, expected.outputs)
                << algorithms()[algorithm].name << " " << name_of(collective) << " P=" << ranks
                << " n=" << count << " " << name_of(type);
            ASSERT_EQ(calls.inputs, expected.inputs) << "an input was written";
          }
        }
      }
  }
  EXPECT_GT(lowered, round * 9 / 10) << "of " << round;
  EXPECT_GT(handed_over, 100);
}

// A message of another call is left where it is, and the engine finds it there.
TEST(Program, LeavesWhatItDoesNotExpectToTheEngine) {
  ShmEngines engines(2);
  Calls mine = make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 2, 10, false,
                          find_algorithm("recursive_doubling"), 1);
  Calls theirs = make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 2, 11,
                            false, find_algorithm("recursive_doubling"), 1);
  const std::vector<Bytes> before = mine.outputs;
  Runner here(engines.of(0), mine, 0), there(engines.of(1), theirs, 1);
  ASSERT_TRUE(here.lowered() && there.lowered());
  here.begin(mine, 0, 1, true);
  there.begin(theirs, 1, 1, true);
  ASSERT_TRUE(there.step(false));
  EXPECT_FALSE(here.step(false));
  EXPECT_EQ(here.handed_over(), 1);
  EXPECT_EQ(here.trouble().code, Code::kMismatch);
  EXPECT_EQ(here.trouble().seen.signature.count, 11U);
  EXPECT_EQ(mine.outputs, before) << "written before agreement";
}

// More messages than slots: a program waits for room, as for a message.
TEST(Program, WaitsForRoom) {
  ShmEngines engines(2);
  Calls calls = make_calls(Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 2, 100, false,
                           find_algorithm("binomial"), 1);
  for (Problem& problem : calls.problems) problem.check = false;
  for (int rank = 0; rank < 2; ++rank)
    calls.schedules[static_cast<size_t>(rank)] =
        build_schedule(calls.problems[static_cast<size_t>(rank)], Group::everyone(2, rank),
                       algorithms()[static_cast<size_t>(find_algorithm("binomial"))]);
  const int root = calls.problems.front().root;
  auto runners = runners_of(engines, calls);
  ASSERT_EQ(runners.size(), 2U);
  Runner& source = *runners[static_cast<size_t>(root)];
  uint32_t sent = 0;
  do {
    source.begin(calls, root, ++sent, true);
    ASSERT_TRUE(source.step(false));
  } while (source.done() && sent < 1000);
  ASSERT_LT(sent, 1000U) << "nobody receives, and still there is room";
  Runner& sink = *runners[static_cast<size_t>(1 - root)];
  for (uint32_t received = 1; received <= sent; ++received) {
    sink.begin(calls, 1 - root, received, true);
    ASSERT_TRUE(sink.step(false));
    if (received == sent - 1) {
      ASSERT_TRUE(source.step(false));
    }
    ASSERT_TRUE(source.done() || received < sent);
    if (!sink.done()) {
      ASSERT_TRUE(sink.step(false));
    }
    ASSERT_TRUE(sink.done()) << received << " of " << sent;
  }
}

TEST(Program, RefusesLongMessages) {
  ShmEngines engines(3);  // slots of two are shorter
  for (const uint64_t bytes : {QuickLane::kBytesMost, QuickLane::kBytesMost + 1}) {
    Calls calls = make_calls(Collective::kAllreduce, DataType::kInt8, ReduceOp::kSum, 3, bytes,
                             false, find_algorithm("recursive_doubling"), 1);
    EXPECT_EQ(!runners_of(engines, calls).empty(), bytes == QuickLane::kBytesMost);
  }
}

}  // namespace
}  // namespace banyan::test::program_test
