// Does the verifier reject every mutant of right schedules? Those that it accepts must be
// explained, by other means than its own.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/verify/verify.h"
#include "tests/algorithms/causality.h"
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/sanitizers.h"
#include "tests/support/toy_codec.h"

namespace banyan::mutants_test {
namespace {

// A sanitizer looks at the verifier and not at the schedules: a part will do.
constexpr int kMostRanks = test::kAddressSanitizer ? 4 : 5;

// Steps that do something else than the given one.
std::vector<Step> other_operations(const Step& step) {
  std::vector<Step> found;
  const auto add = [&](Op op, Slice src, CodecId codec = kNoCodec) {
    found.push_back({.op = op,
                     .type = step.type,
                     .codec = codec,
                     .peer = step.peer,
                     .src = src,
                     .src2 = {},
                     .dst = step.dst});
  };
  switch (step.op) {
    case Op::kReduce: add(Op::kCopy, step.src2); [[fallthrough]];
    case Op::kDecodeAdd:
      add(Op::kCopy, step.src);
      if (step.codec != kNoCodec) add(Op::kDecode, step.src2, step.codec);
      break;
    case Op::kRecvReduce: add(Op::kRecv, {}); break;
    case Op::kRecvDecodeAdd:
      add(Op::kRecv, {});
      add(Op::kRecvReduce, step.src);
      break;
    case Op::kEncode:
    case Op::kSelect:
    case Op::kFold:
    case Op::kDecode: add(Op::kCopy, step.src); break;
    case Op::kOffer:
    case Op::kDecide:
    case Op::kDelegate:
    case Op::kWithdraw:
    case Op::kSend:
    case Op::kRecv:
    case Op::kCopy: break;
  }
  return found;
}

bool type_matters(Op op) {
  return op != Op::kSend && op != Op::kRecv && op != Op::kCopy;
}

std::vector<Step> shifted(const Step& step, uint64_t element) {
  std::vector<Step> found;
  for (Slice Step::*which : {&Step::src, &Step::src2, &Step::dst, &Step::dst2}) {
    const Slice slice = step.*which;
    if (slice.size == 0) continue;
    Step moved = step;
    (moved.*which).offset = slice.offset + element;
    found.push_back(moved);
    if (slice.offset < element) continue;
    (moved.*which).offset = slice.offset - element;
    found.push_back(moved);
  }
  return found;
}

// Steps that say something else of codecs and wire slots.
std::vector<Step> recoded(const Schedule& schedule, const Step& step) {
  std::vector<Step> found;
  const auto add = [&](auto change) {
    Step changed = step;
    change(changed);
    found.push_back(changed);
  };
  for (const CodecId codec : {kNoCodec, test::kToy, test::kToyWhole})
    if (step.codec != kNoCodec && codec != step.codec)
      add([&](Step& changed) { changed.codec = codec; });
  std::vector<Slice> slots(schedule.slots);
  for (const Step& each : schedule.steps)
    for (const Slice slice : {each.src, each.src2, each.dst})
      if (slice.is_slot()) slots[slice.slot - 1] = slice;
  for (Slice Step::*which : {&Step::src, &Step::src2, &Step::dst}) {
    if (!(step.*which).is_slot()) continue;
    add([&](Step& changed) { (changed.*which).slot = 0; });
    for (const Slice& other : slots)
      if (other != step.*which) add([&](Step& changed) { changed.*which = other; });
  }
  return found;
}

// Steps that leave over what they encode at the place of another step's result, or nowhere.
std::vector<Step> left_elsewhere(const Schedule& schedule, const Step& step) {
  std::vector<Step> found;
  if (step.dst2.size == 0) return found;
  found.push_back(step);
  found.back().dst2 = {};
  for (const Step& other : schedule.steps) {
    if (other.dst.size < step.dst2.size || other == step) continue;
    found.push_back(step);
    found.back().dst2 = {other.dst.space, other.dst.offset, step.dst2.size};
  }
  return found;
}

enum class Mutation { kDrop, kRepeat, kRetarget, kShift, kOperation, kType, kCodec, kLeft, kEdge };
constexpr const char* kMutationNames[] = {"drop",  "repeat",    "retarget",
                                          "shift", "operation", "type",
                                          "codec", "left over", "dependency edge"};

struct Mutant {
  Mutation mutation;
  uint32_t step;
  uint32_t before;  // of the edge
  Schedule schedule;
};

std::vector<Mutant> mutants_of(const Schedule& schedule, int rank, const VerifiedCase& call) {
  std::vector<Mutant> mutants;
  const auto add = [&](Mutation mutation, uint32_t step, Schedule mutated, uint32_t before = 0) {
    mutants.push_back({mutation, step, before, std::move(mutated)});
  };
  for (uint32_t at = 0; at < schedule.steps.size(); ++at) {
    const Step& step = schedule.steps[at];
    add(Mutation::kDrop, at, without_step(schedule, at));
    add(Mutation::kRepeat, at, with_repeated(schedule, at));
    for (int peer = 0; has_peer(step) && peer < call.ranks; ++peer) {
      if (peer == rank || peer == step.peer) continue;
      Step changed = step;
      changed.peer = peer;
      add(Mutation::kRetarget, at, with_step(schedule, at, changed));
    }
    for (const Step& changed : shifted(step, size_of(call.type)))
      add(Mutation::kShift, at, with_step(schedule, at, changed));
    for (const Step& changed : other_operations(step))
      add(Mutation::kOperation, at, with_step(schedule, at, changed));
    if (type_matters(step.op)) {
      Step changed = step;
      changed.type = step.type == DataType::kInt32 ? DataType::kFloat32 : DataType::kInt32;
      add(Mutation::kType, at, with_step(schedule, at, changed));
    }
    for (const Step& changed : recoded(schedule, step))
      add(Mutation::kCodec, at, with_step(schedule, at, changed));
    for (const Step& changed : left_elsewhere(schedule, step))
      add(Mutation::kLeft, at, with_step(schedule, at, changed));
    for (const uint32_t next : schedule.successors_of(at))
      add(Mutation::kEdge, next, without_edge(schedule, at, next), at);
  }
  return mutants;
}

// The names of the ways in which a mutant may be right after all.
constexpr const char* kImplied = "edge implied by other edges";
constexpr const char* kFence = "edge of a fence that neither memory nor agreement needs";
constexpr const char* kRepeatable = "repeated step that does not read what it writes";
constexpr const char* kOwnBlock = "dropped copy that puts the own block back in place";
constexpr const char* kUnread = "dropped or shifted write to scratch that nobody reads";
constexpr const char* kLeftNowhere = "nothing left over, which nobody reads";
constexpr const char* kLeftBehind = "something left over that nobody reads before other bytes";

// All steps of the rank that touch the same bytes are still ordered.
bool keeps_order(const Causality& causality, const Schedule& schedule, size_t rank) {
  for (uint32_t after = 0; after < schedule.steps.size(); ++after)
    for (uint32_t before = 0; before < after; ++before)
      if (conflict(schedule.steps[before], schedule.steps[after]) &&
          !causality.waits(rank, after, before))
        return false;
  return true;
}

bool is_unread(const Schedule& schedule, Slice slice) {
  if (slice.space != Space::kScratch) return false;
  return std::none_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
    return meets(step.src, slice) || meets(step.src2, slice);
  });
}

// Whoever reads what the step writes there comes before it, or after another step that writes the
// same bytes anew. The caller reads the output at the end.
bool is_overwritten(const Causality& causality, const Schedule& schedule, size_t rank,
                    uint32_t step, Slice slice) {
  const auto written_anew = [&](Slice bytes, std::optional<uint32_t> reader) {
    for (uint32_t other = 0; other < schedule.steps.size(); ++other) {
      const Slice dst = schedule.steps[other].dst;
      if (dst.space == bytes.space && dst.offset <= bytes.offset && bytes.end() <= dst.end() &&
          causality.waits(rank, other, step) && (!reader || causality.waits(rank, *reader, other)))
        return true;
    }
    return false;
  };
  if (slice.space == Space::kOutput && !written_anew(slice, std::nullopt)) return false;
  for (uint32_t reader = 0; reader < schedule.steps.size(); ++reader)
    for (const Slice read : {schedule.steps[reader].src, schedule.steps[reader].src2}) {
      if (!meets(read, slice) || reader == step || causality.waits(rank, step, reader)) continue;
      const uint64_t begin = std::max(read.offset, slice.offset);
      const uint64_t end = std::min(read.end(), slice.end());
      if (!written_anew({slice.space, begin, end - begin}, reader)) return false;
    }
  return true;
}

// In place, the block that a rank gives to itself is where it belongs from the start.
bool fills_own_block(const Step& step, const Problem& problem, size_t rank) {
  if (step.op != Op::kCopy || !problem.in_place || reduces(problem.collective)) return false;
  const bool listed = problem.collective == Collective::kAllgatherv;
  const uint64_t place = listed ? problem.recv_displacements[rank] : problem.count * rank;
  const uint64_t count = listed ? problem.recv_counts[rank] : problem.count;
  return step.dst == Slice{Space::kOutput, place * problem.element(), count * problem.element()};
}

// nullptr: there is no explanation. `schedules` has the mutant in the place of `rank`.
const char* explain(const Mutant& mutant, const std::vector<Schedule>& schedules, size_t rank,
                    const Schedule& original, const Problem& problem) {
  const Step& step = original.steps[mutant.step];
  const bool same_steps = mutant.schedule.steps.size() == original.steps.size();
  const Step& changed = same_steps ? mutant.schedule.steps[mutant.step] : step;
  switch (mutant.mutation) {
    case Mutation::kEdge: {
      const Causality causality(schedules);
      if (causality.waits(rank, mutant.step, mutant.before)) return kImplied;
      const bool right = keeps_order(causality, mutant.schedule, rank) && causality.agrees();
      return right ? kFence : nullptr;
    }
    case Mutation::kRepeat:
      return !has_peer(step) && !meets(step.src, step.dst) && !meets(step.src2, step.dst)
                 ? kRepeatable
                 : nullptr;
    case Mutation::kShift: {
      const Slice Step::*which = changed.dst2 != step.dst2 ? &Step::dst2 : &Step::dst;
      return is_unread(original, step.*which) && is_unread(original, changed.*which) ? kUnread
                                                                                     : nullptr;
    }
    case Mutation::kLeft: {
      if (changed.dst2.size == 0) return is_unread(original, step.dst2) ? kLeftNowhere : nullptr;
      const Causality causality(schedules);
      return keeps_order(causality, mutant.schedule, rank) && causality.agrees() &&
                     is_overwritten(causality, mutant.schedule, rank, mutant.step, changed.dst2)
                 ? kLeftBehind
                 : nullptr;
    }
    case Mutation::kDrop:
      if (fills_own_block(step, problem, rank)) return kOwnBlock;
      return !has_peer(step) && is_unread(original, step.dst) ? kUnread : nullptr;
    case Mutation::kRetarget:
    case Mutation::kOperation:
    case Mutation::kType:
    case Mutation::kCodec: return nullptr;
  }
  return nullptr;
}

struct Tally {
  int mutants = 0;
  int caught = 0;
  std::map<std::string, int> explained;
};

bool is_caught(const std::vector<Schedule>& schedules, const std::vector<Problem>& problems,
               bool by_content = false) {
  VerifyOptions runs[] = {
      {.slots = 1, .seed = 1}, {.slots = 0, .seed = 2}, {.slots = 4, .seed = 3}};
  return std::any_of(std::begin(runs), std::end(runs), [&](VerifyOptions& options) {
    options.by_content = by_content;
    return !verify(schedules, problems, options).ok;
  });
}

void try_mutants(const VerifiedCase& call, const BuiltCase& built, Tally& tally) {
  static const int hierarchical = find_algorithm("hierarchical");
  ASSERT_FALSE(is_caught(built.schedules, built.problems)) << call;
  std::vector<Schedule> schedules = built.schedules;
  for (int rank = 0; rank < call.ranks; ++rank) {
    const auto place = static_cast<size_t>(rank);
    for (Mutant& mutant : mutants_of(built.schedules[place], rank, call)) {
      ++tally.mutants;
      schedules[place] = mutant.schedule;
      const bool caught = is_caught(schedules, built.problems);
      // As at scale, where one rank finishes each sum; not even that may do so twice.
      const bool finishes_twice = mutant.mutation == Mutation::kRepeat &&
                                  built.schedules[place].steps[mutant.step].op == Op::kDecodeAdd;
      if (call.collective == Collective::kAllreduce && call.algorithm == hierarchical &&
          !finishes_twice) {
        EXPECT_EQ(is_caught(schedules, built.problems, true), caught)
            << call << ": rank " << rank << " s" << mutant.step;
      }
      if (caught) {
        ++tally.caught;
        continue;
      }
      const char* reason =
          explain(mutant, schedules, place, built.schedules[place], built.problems[place]);
      if (reason != nullptr)
        ++tally.explained[reason];
      else
        ADD_FAILURE() << call << ": rank " << rank << " s" << mutant.step << ' '
                      << name_of(built.schedules[place].steps[mutant.step].op) << ", "
                      << kMutationNames[static_cast<size_t>(mutant.mutation)] << " (of s"
                      << mutant.before << "): not caught";
    }
    schedules[place] = built.schedules[place];
  }
}

void expect_all_explained(const Tally& tally) {
  int explained = 0;
  std::ostringstream text;
  for (const auto& [reason, count] : tally.explained) {
    explained += count;
    text << "  " << count << ": " << reason << '\n';
  }
  std::cout << tally.mutants << " mutants, " << tally.caught << " caught, " << explained
            << " explained\n"
            << text.str();
  EXPECT_EQ(tally.mutants, tally.caught + explained);
  EXPECT_GT(tally.caught, 1000);
}

// One call for each algorithm and collective and number of ranks, the settings in turn.
TEST(Mutants, AreCaughtOrExplained) {
  constexpr std::pair<DataType, ReduceOp> kCodecs[] = {
      {DataType::kFloat32, ReduceOp::kSum},
      {DataType::kBfloat16, ReduceOp::kSum},
      {DataType::kBfloat16, ReduceOp::kPreMulSum},
      {DataType::kFloat32, ReduceOp::kAvg},
  };
  Tally tally;
  uint32_t turn = 0;
  for (size_t algorithm = 0; algorithm < algorithms().size(); ++algorithm)
    for (int collective = 0; collective < kCollectiveCount; ++collective)
      for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
        if (!algorithms()[algorithm].fits(static_cast<Collective>(collective))) continue;
        VerifiedCase call{.collective = static_cast<Collective>(collective),
                          .algorithm = static_cast<int>(algorithm),
                          .ranks = ranks,
                          .count = static_cast<uint64_t>(ranks) + 1};
        ++turn;
        if (has_root(call.collective)) call.root = ranks - 1;
        if (reduces(call.collective)) {
          call.type = kCodecs[turn % std::size(kCodecs)].first;
          call.op = kCodecs[turn % std::size(kCodecs)].second;
        }
        call.in_place = turn % 3 == 0 && call.collective != Collective::kAlltoallv;
        if (algorithms()[algorithm].by_levels)
          call.shape = std::make_shared<Shape>(shapes_of(ranks)[turn % 5]);
        try_mutants(call, build_case(call), tally);
      }
  expect_all_explained(tally);
}

// Every encoding leaves something over in scratch of its own.
Schedule with_left_over(Schedule schedule) {
  for (Step& step : schedule.steps)
    if (step.op == Op::kEncode && step.codec != kNoCodec) {
      step.dst2 = {Space::kScratch, schedule.scratch_size, step.src.size};
      schedule.scratch_size += (step.src.size + 63) / 64 * 64;
    }
  return schedule;
}

TEST(Mutants, OfSumsByCodecsAreCaughtOrExplained) {
  constexpr std::pair<DataType, ReduceOp> kSums[] = {
      {DataType::kFloat32, ReduceOp::kSum},       {DataType::kBfloat16, ReduceOp::kSum},
      {DataType::kFloat32, ReduceOp::kPreMulSum}, {DataType::kFloat32, ReduceOp::kAvg},
      {DataType::kFloat16, ReduceOp::kAvg},
  };
  constexpr std::pair<CodecId, CodecId> kPairs[] = {
      {kNoCodec, test::kToy}, {test::kToyWhole, test::kToy}, {test::kToyWhole, kNoCodec}};
  Tally tally;
  uint32_t turn = 0;
  for (const char* name : {"direct", "hierarchical"})
    for (const Collective collective :
         {Collective::kAllreduce, Collective::kReduceScatter, Collective::kReduceScatterv})
      for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
        VerifiedCase call{.collective = collective,
                          .algorithm = find_algorithm(name),
                          .ranks = ranks,
                          .count = static_cast<uint64_t>(ranks) + 1};
        ++turn;
        call.type = kSums[turn % std::size(kSums)].first;
        call.op = kSums[turn % std::size(kSums)].second;
        call.in_place = turn % 3 == 0;
        call.codecs = test::toy_codecs();
        call.parameters.inter_codec.codec = test::kToy;
        if (algorithms()[static_cast<size_t>(call.algorithm)].by_levels) {
          call.shape = std::make_shared<Shape>(shapes_of(ranks)[turn % 5]);
          call.parameters.intra_codec.codec = kPairs[turn % 3].first;
          call.parameters.inter_codec.codec = kPairs[turn % 3].second;
        }
        BuiltCase built = build_case(call);
        for (Schedule& schedule : built.schedules) schedule = with_left_over(std::move(schedule));
        try_mutants(call, built, tally);
        if (collective != Collective::kAllreduce) continue;
        call.type = DataType::kFloat32;
        call.op = ReduceOp::kSum;
        call.keeps_left = true;
        try_mutants(call, build_case(call), tally);
      }
  expect_all_explained(tally);
}

}  // namespace
}  // namespace banyan::mutants_test
