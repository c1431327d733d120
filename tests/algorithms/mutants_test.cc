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
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/verified_case.h"

namespace banyan {
namespace {

// Steps that do something else than the given one.
std::vector<Step> other_operations(const Step& step) {
  std::vector<Step> found;
  const auto add = [&](Op op, Slice src) {
    found.push_back(
        {.op = op, .type = step.type, .peer = step.peer, .src = src, .src2 = {}, .dst = step.dst});
  };
  switch (step.op) {
    case Op::kReduce: add(Op::kCopy, step.src2); [[fallthrough]];
    case Op::kDecodeAdd: add(Op::kCopy, step.src); break;
    case Op::kRecvReduce: add(Op::kRecv, {}); break;
    case Op::kRecvDecodeAdd:
      add(Op::kRecv, {});
      add(Op::kRecvReduce, step.src);
      break;
    case Op::kEncode:
    case Op::kDecode: add(Op::kCopy, step.src); break;
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
  for (Slice Step::*which : {&Step::src, &Step::src2, &Step::dst}) {
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

enum class Mutation { kDrop, kRepeat, kRetarget, kShift, kOperation, kType, kEdge };
constexpr const char* kMutationNames[] = {"drop",      "repeat", "retarget",       "shift",
                                          "operation", "type",   "dependency edge"};

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
    for (const uint32_t next : schedule.successors_of(at))
      add(Mutation::kEdge, next, without_edge(schedule, at, next), at);
  }
  return mutants;
}

bool meets(Slice left, Slice right) {
  return left.space == right.space && left.size != 0 && right.size != 0 &&
         left.offset < right.end() && right.offset < left.end();
}

bool conflict(const Step& left, const Step& right) {
  return meets(left.dst, right.dst) || meets(left.dst, right.src) || meets(left.dst, right.src2) ||
         meets(left.src, right.dst) || meets(left.src2, right.dst);
}

// The steps of all ranks, and who comes before whom, through dependencies and messages.
class Causality {
 public:
  explicit Causality(const std::vector<Schedule>& schedules) : schedules_(schedules) {
    for (const Schedule& schedule : schedules) {
      first_.push_back(static_cast<uint32_t>(predecessors_.size()));
      for (auto each : edges_of(schedule)) {
        for (uint32_t& before : each) before += first_.back();
        predecessors_.push_back(std::move(each));
      }
    }
    for (size_t rank = 0; rank < schedules.size(); ++rank)
      for (const Port& port : schedules[rank].ports)
        if (!port.sending) add_messages(rank, port);
  }

  // Every step that writes output comes after a step of each rank, or is at that rank.
  bool agrees() const {
    for (size_t rank = 0; rank < schedules_.size(); ++rank)
      for (uint32_t step = 0; step < schedules_[rank].steps.size(); ++step) {
        const Slice dst = schedules_[rank].steps[step].dst;
        if (dst.size == 0 || dst.space != Space::kOutput) continue;
        if (!comes_after_all(first_[rank] + step)) return false;
      }
    return true;
  }

  bool waits(size_t rank, uint32_t step, uint32_t before) const {
    return before_of(first_[rank] + step, rank)[first_[rank] + before];
  }

 private:
  void add_messages(size_t rank, const Port& port) {
    const Schedule& sender = schedules_[static_cast<size_t>(port.peer)];
    for (const Port& other : sender.ports) {
      if (!other.sending || other.peer != static_cast<int32_t>(rank)) continue;
      for (uint32_t index = 0; index < port.end - port.begin; ++index)
        predecessors_[first_[rank] + schedules_[rank].port_steps[port.begin + index]].push_back(
            first_[static_cast<size_t>(port.peer)] + sender.port_steps[other.begin + index]);
    }
  }

  bool is_of(uint32_t node, size_t rank) const {
    return node >= first_[rank] && (rank + 1 == first_.size() || node < first_[rank + 1]);
  }

  // All that comes before a node; through steps of one rank only, if one is given.
  std::vector<bool> before_of(uint32_t node, std::optional<size_t> rank) const {
    std::vector<bool> seen(predecessors_.size(), false);
    std::vector<uint32_t> open{node};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (const uint32_t before : predecessors_[at]) {
        if (seen[before] || (rank && !is_of(before, *rank))) continue;
        seen[before] = true;
        open.push_back(before);
      }
    }
    return seen;
  }

  bool comes_after_all(uint32_t node) const {
    const std::vector<bool> before = before_of(node, std::nullopt);
    for (size_t rank = 0; rank < first_.size(); ++rank) {
      bool heard = is_of(node, rank);
      for (uint32_t each = 0; each < before.size() && !heard; ++each)
        heard = before[each] && is_of(each, rank);
      if (!heard) return false;
    }
    return true;
  }

  const std::vector<Schedule>& schedules_;
  std::vector<uint32_t> first_;
  Edges predecessors_;
};

// The names of the ways in which a mutant may be right after all.
constexpr const char* kImplied = "edge implied by other edges";
constexpr const char* kFence = "edge of a fence that neither memory nor agreement needs";
constexpr const char* kRepeatable = "repeated step that does not read what it writes";
constexpr const char* kOwnBlock = "dropped copy that puts the own block back in place";
constexpr const char* kUnread = "dropped or shifted write to scratch that nobody reads";

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
    case Mutation::kShift:
      return is_unread(original, step.dst) &&
                     is_unread(original, mutant.schedule.steps[mutant.step].dst)
                 ? kUnread
                 : nullptr;
    case Mutation::kDrop:
      if (fills_own_block(step, problem, rank)) return kOwnBlock;
      return !has_peer(step) && is_unread(original, step.dst) ? kUnread : nullptr;
    case Mutation::kRetarget:
    case Mutation::kOperation:
    case Mutation::kType: return nullptr;
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

void try_mutants(const VerifiedCase& call, Tally& tally) {
  static const int hierarchical = find_algorithm("hierarchical");
  const BuiltCase built = build_case(call);
  ASSERT_FALSE(is_caught(built.schedules, built.problems)) << call;
  std::vector<Schedule> schedules = built.schedules;
  for (int rank = 0; rank < call.ranks; ++rank) {
    const auto place = static_cast<size_t>(rank);
    for (Mutant& mutant : mutants_of(built.schedules[place], rank, call)) {
      ++tally.mutants;
      schedules[place] = mutant.schedule;
      const bool caught = is_caught(schedules, built.problems);
      // As at scale, where one rank finishes each sum.
      if (call.collective == Collective::kAllreduce && call.algorithm == hierarchical) {
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
      for (const int ranks : {2, 3, 4, 5}) {
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
        try_mutants(call, tally);
      }
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

}  // namespace
}  // namespace banyan
