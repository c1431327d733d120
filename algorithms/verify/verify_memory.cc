// What local steps of the verifier's execution read and write.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <utility>

#include "algorithms/verify/verify_execution.h"

namespace banyan {

ScheduleFault SymbolExecution::read(RankStep at, Slice slice, std::vector<Run>& runs) {
  const Step& step = step_at(at);
  const bool of_peer = !is_transfer(step.op) && step.peer >= 0 && slice == step.src;
  return read(at, of_peer ? step.peer : at.rank, slice, runs);
}

// From the memory of that rank.
ScheduleFault SymbolExecution::read(RankStep at, int rank, Slice slice, std::vector<Run>& runs) {
  runs.clear();
  if (slice.size == 0) return {};
  if (slice.space == Space::kWindow) {
    ScheduleFault fault = touch_window(at, rank, slice, false);
    if (!fault.empty()) return fault;
  }
  RankMemory& mine = state(rank);
  const Memory* const spaces[] = {&mine.layout.input, &mine.layout.output, &mine.scratch, nullptr,
                                  &mine.window};
  spaces[static_cast<size_t>(slice.space)]->read(slice.offset, slice.size, runs);
  const bool defined = !runs.empty() && runs.back().end == slice.size;
  const auto fault = [&](const std::string& what) {
    return place_of(call_, at.rank, at.step) + " reads " + what;
  };
  if (!defined && slice.is_slot())
    return fault("wire slot " + std::to_string(slice.slot) + ", which nobody wrote");
  if (!defined) return fault("memory that nobody wrote");
  for (const Run& run : runs) {
    const SymbolStage stage = arithmetic_.symbols().stage(run.symbol);
    if (stage == SymbolStage::kUntouched) return fault("output that nobody wrote");
    // The structure has been checked: only copies take it there.
    const bool takes_out = step_at(at).dst.space == Space::kLeft;
    if (stage == SymbolStage::kLeft && !takes_out) return fault("what a message has left over");
  }
  return {};
}

// A rank that the step may not have heard from when it writes these runs, -1 if there is none.
int SymbolExecution::unheard(RankStep at, const std::vector<Run>& runs) const {
  if (knowledge_) return knowledge_->missing(global(at));
  for (const Run& run : runs) {
    const int missing = arithmetic_.symbols().missing(run.symbol);
    if (missing >= 0) return missing;
  }
  return -1;
}

ScheduleFault SymbolExecution::write(RankStep at, Slice slice, const std::vector<Run>& runs) {
  if (slice.size == 0) return {};
  if (slice.space == Space::kLeft) return {};  // nobody reads it
  RankMemory& mine = state(at.rank);
  if (slice.space == Space::kScratch) {
    mine.scratch.write(slice.offset, runs);
    return {};
  }
  if (slice.space == Space::kWindow) {
    mine.window.write(slice.offset, runs);
    return touch_window(at, at.rank, slice, true);
  }
  if (check_) {
    const int missing = unheard(at, runs);
    if (missing >= 0)
      return place_of(call_, at.rank, at.step) +
             " writes the output without having heard from rank " + std::to_string(missing);
  }
  mine.layout.output.write(slice.offset, runs);
  return {};
}

// What is there is anybody's from now on.
ScheduleFault SymbolExecution::withdraw(RankStep at) {
  state(at.rank).window = {};
  return touch_window(at, at.rank, {Space::kWindow, 0, kWindowBytes}, true);
}

ScheduleFault SymbolExecution::touch_window(RankStep at, int window, Slice slice, bool write) {
  if (!order_) return place_of(call_, at.rank, at.step) + " uses a window, but there are none";
  const int64_t earlier = order_->touch(window, slice, global(at), write);
  if (earlier < 0) return {};
  int rank = call_.ranks - 1;
  while (first_step_[static_cast<size_t>(rank)] > static_cast<size_t>(earlier)) --rank;
  const auto step =
      static_cast<uint32_t>(static_cast<size_t>(earlier) - first_step_[static_cast<size_t>(rank)]);
  return place_of(call_, at.rank, at.step) + " touches what " + place_of(call_, rank, step) +
         " touches in the window of rank " + std::to_string(window) +
         ", and neither knows that the other is done";
}

// It ends when all have come.
ScheduleFault SymbolExecution::arrive(RankStep at) {
  const std::vector<int32_t> ranks = call_.window_ranks(at.rank);
  const size_t places = ranks.size();
  DelegateMeeting& meeting = meetings_[ranks.front()];
  if (meeting.steps.empty()) meeting = {std::vector(places, kNoStep), {}, 0};
  meeting.given.resize(places);
  const auto own =
      static_cast<size_t>(std::find(ranks.begin(), ranks.end(), at.rank) - ranks.begin());
  if (meeting.steps[own] != kNoStep)
    return place_of(call_, at.rank, at.step) + " begins while " +
           place_of(call_, at.rank, meeting.steps[own]) + " is under way";
  const Schedule& schedule = call_.schedules[static_cast<size_t>(at.rank)];
  meeting.given[own].resize(places);
  for (size_t place = 0; place < places; ++place) {
    const Slice& given = schedule.delegations[step_at(at).coding].to[place];
    ScheduleFault fault = read(at, at.rank, given, meeting.given[own][place]);
    if (!fault.empty()) return fault;
  }
  meeting.steps[own] = at.step;
  return ++meeting.arrived == places ? end_meeting(ranks, meeting) : ScheduleFault{};
}

// What one gives another is as long as that takes.
ScheduleFault SymbolExecution::end_meeting(const std::vector<int32_t>& ranks,
                                           DelegateMeeting& meeting) {
  const DelegateMeeting met = std::exchange(meeting, {});
  for (size_t taker = 0; taker < ranks.size(); ++taker) {
    const RankStep at{ranks[taker], met.steps[taker]};
    const Schedule& schedule = call_.schedules[static_cast<size_t>(at.rank)];
    for (size_t giver = 0; giver < ranks.size(); ++giver) {
      const RankStep other{ranks[giver], met.steps[giver]};
      if (knowledge_ && giver != taker) knowledge_->join(global(at), global(other));
      if (order_ && giver != taker) order_->join(global(at), global(other));
      const std::vector<Run>& runs = met.given[giver][taker];
      const Slice& to = schedule.delegations[step_at(at).coding].from[giver];
      if ((runs.empty() ? 0 : runs.back().end) != to.size)
        return place_of(call_, at.rank, at.step) + " and " +
               place_of(call_, other.rank, other.step) + " differ in what goes between them";
      ScheduleFault fault = write(at, to, runs);
      if (!fault.empty()) return fault;
    }
  }
  for (size_t place = 0; place < ranks.size(); ++place) complete({ranks[place], met.steps[place]});
  return {};
}

ScheduleFault SymbolExecution::run_fold(RankStep at) {
  const Step& step = step_at(at);
  const std::vector<int32_t> ranks = call_.window_ranks(at.rank);
  std::vector<std::vector<Run>> windows(ranks.size());
  ScheduleFault fault;
  for (size_t index = 0; index < ranks.size() && fault.empty(); ++index)
    fault = step.src2.size == 0
                ? read(at, ranks[index], step.src, windows[index])
                : read(at, at.rank, step.src2.sub(index * step.src.size, step.src.size),
                       windows[index]);
  if (!fault.empty()) return fault;
  fault = arithmetic_.fold(step, at.rank, windows);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  return write(at, step.dst, windows.front());
}

ScheduleFault SymbolExecution::run_local(RankStep at) {
  const Step& step = step_at(at);
  ScheduleFault fault = read(at, step.src, left_);
  if (fault.empty()) fault = read(at, step.src2, right_);
  if (!fault.empty()) return fault;
  fault = arithmetic_.apply(step, at.rank, left_, right_);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  fault = write(at, step.dst, left_);
  if (fault.empty() && step.dst2.size != 0)
    fault = write(at, step.dst2, {Run{0, step.dst2.size, arithmetic_.symbols().left_over(), 0}});
  return fault;
}

ScheduleFault SymbolExecution::run_alone(RankStep at) {
  const Step& step = step_at(at);
  ScheduleFault fault;
  if (step.op == Op::kDelegate && !skips(at)) return arrive(at);
  if (!skips(at)) {
    switch (step.op) {
      case Op::kOffer: {
        const SymbolId said = arithmetic_.symbols().contribution(at.rank);
        fault = write(at, step.dst, {Run{0, step.dst.size, said, 0}});
        break;
      }
      case Op::kDecide: fault = read(at, step.src, left_); break;
      case Op::kFold: fault = run_fold(at); break;
      case Op::kWithdraw: fault = withdraw(at); break;
      default: fault = run_local(at); break;
    }
  }
  if (fault.empty()) complete(at);
  return fault;
}

}  // namespace banyan
