// SPDX-License-Identifier: Apache-2.0

#include "algorithms/builder.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <utility>

namespace banyan {
namespace {

bool is_message(Op op) {
  return op == Op::kSend || op == Op::kRecv || op == Op::kRecvReduce || op == Op::kRecvDecodeAdd;
}

// Fills in everything but steps and scratch_size.
void link(Schedule& schedule, const std::vector<std::vector<uint32_t>>& predecessors) {
  const size_t count = schedule.steps.size();
  schedule.dependency_count.resize(count);
  schedule.successors_begin.assign(count + 1, 0);
  for (size_t step = 0; step < count; ++step) {
    schedule.dependency_count[step] = static_cast<uint32_t>(predecessors[step].size());
    for (const uint32_t before : predecessors[step]) ++schedule.successors_begin[before + 1];
  }
  for (size_t step = 0; step < count; ++step)
    schedule.successors_begin[step + 1] += schedule.successors_begin[step];
  schedule.successors.resize(schedule.successors_begin[count]);
  std::vector<uint32_t> next(schedule.successors_begin.begin(),
                             schedule.successors_begin.end() - 1);
  for (uint32_t step = 0; step < count; ++step)
    for (const uint32_t before : predecessors[step]) schedule.successors[next[before]++] = step;

  std::map<std::pair<int32_t, bool>, std::vector<uint32_t>> ports;
  for (uint32_t step = 0; step < count; ++step) {
    const Step& each = schedule.steps[step];
    if (is_message(each.op)) ports[{each.peer, each.op == Op::kSend}].push_back(step);
  }
  schedule.port_of.assign(count, -1);
  for (const auto& [key, steps] : ports) {
    const auto begin = static_cast<uint32_t>(schedule.port_steps.size());
    for (const uint32_t step : steps)
      schedule.port_of[step] = static_cast<int32_t>(schedule.ports.size());
    schedule.port_steps.insert(schedule.port_steps.end(), steps.begin(), steps.end());
    schedule.ports.push_back(
        {key.first, key.second, begin, static_cast<uint32_t>(schedule.port_steps.size())});
  }
}

std::vector<std::vector<uint32_t>> predecessors_of(const Schedule& schedule) {
  std::vector<std::vector<uint32_t>> predecessors(schedule.steps.size());
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    for (const uint32_t next : schedule.successors_of(step)) predecessors[next].push_back(step);
  return predecessors;
}

}  // namespace

Slice ScheduleBuilder::scratch(uint64_t bytes) {
  constexpr uint64_t kAlignment = 64;
  const uint64_t offset = scratch_size_;
  scratch_size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {Space::kScratch, offset, bytes};
}

void ScheduleBuilder::send(Slice src, int peer) {
  append({.op = Op::kSend, .peer = peer, .src = src, .src2 = {}, .dst = {}});
}

void ScheduleBuilder::recv(Slice dst, int peer) {
  append({.op = Op::kRecv, .peer = peer, .src = {}, .src2 = {}, .dst = dst});
}

void ScheduleBuilder::copy(Slice src, Slice dst) {
  assert(src.size == dst.size);
  if (dst.size == 0 || src == dst) return;
  append({.op = Op::kCopy, .src = src, .src2 = {}, .dst = dst});
}

void ScheduleBuilder::reduce(DataType type, Slice left, Slice right, Slice dst) {
  assert(left.size == right.size && left.size == dst.size);
  if (dst.size == 0) return;
  append({.op = Op::kReduce, .type = type, .src = left, .src2 = right, .dst = dst});
}

void ScheduleBuilder::encode(DataType element, Slice src, Slice dst) {
  if (dst.size == 0) return;
  append({.op = Op::kEncode, .type = element, .src = src, .src2 = {}, .dst = dst});
}

void ScheduleBuilder::decode(DataType element, Slice src, Slice dst) {
  if (dst.size == 0) return;
  append({.op = Op::kDecode, .type = element, .src = src, .src2 = {}, .dst = dst});
}

void ScheduleBuilder::decode_add(DataType element, Slice accumulator, Slice src, Slice dst) {
  assert(accumulator.size == dst.size);
  if (dst.size == 0) return;
  append({.op = Op::kDecodeAdd, .type = element, .src = accumulator, .src2 = src, .dst = dst});
}

// A step after the fence that no step after the fence leads to waits for all of before_fence_; the
// others wait for it through those.
void ScheduleBuilder::fence() {
  std::vector<uint32_t> sinks;
  for (uint32_t step = 0; step < steps_.size(); ++step)
    if (has_successor_[step] == 0) sinks.push_back(step);
  before_fence_ = std::move(sinks);
  fence_at_ = static_cast<uint32_t>(steps_.size());
}

void ScheduleBuilder::append(const Step& step) {
  const auto id = static_cast<uint32_t>(steps_.size());
  steps_.push_back(step);
  predecessors_.emplace_back();
  has_successor_.push_back(0);
  if (step.src.size != 0) touch(step.src, id, false);
  if (step.src2.size != 0) touch(step.src2, id, false);
  if (step.dst.size != 0) touch(step.dst, id, true);

  auto& found = predecessors_[id];
  const bool behind = std::any_of(found.begin(), found.end(), [&](uint32_t before) {
    return before != id && before >= fence_at_;
  });
  if (!behind) found.insert(found.end(), before_fence_.begin(), before_fence_.end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase(found, id);
  for (const uint32_t before : found) has_successor_[before] = 1;
}

// Splits the runs that the slice cuts, so that it covers whole runs, and takes from each what the
// step must wait for.
void ScheduleBuilder::touch(Slice slice, uint32_t step, bool write) {
  auto& runs = runs_[static_cast<size_t>(slice.space)];
  auto& before = predecessors_[step];

  std::vector<Run> updated;
  auto first = std::partition_point(runs.begin(), runs.end(),
                                    [&](const Run& run) { return run.end <= slice.offset; });
  auto last = first;
  uint64_t covered = slice.offset;
  const auto fresh = [&](uint64_t begin, uint64_t end) {
    updated.push_back({begin, end, write ? int64_t{step} : -1, {}});
    if (!write) updated.back().readers.push_back(step);
  };
  for (; last != runs.end() && last->begin < slice.end(); ++last) {
    if (covered < last->begin) fresh(covered, last->begin);
    const uint64_t begin = std::max(slice.offset, last->begin);
    const uint64_t end = std::min(slice.end(), last->end);
    if (last->begin < begin) updated.push_back({last->begin, begin, last->writer, last->readers});
    if (write) {
      // A reader waits for the writer that it read, so waiting for the readers is enough.
      if (last->readers.empty() && last->writer >= 0)
        before.push_back(static_cast<uint32_t>(last->writer));
      before.insert(before.end(), last->readers.begin(), last->readers.end());
      updated.push_back({begin, end, step, {}});
    } else {
      if (last->writer >= 0) before.push_back(static_cast<uint32_t>(last->writer));
      updated.push_back({begin, end, last->writer, last->readers});
      updated.back().readers.push_back(step);
    }
    if (end < last->end) updated.push_back({end, last->end, last->writer, last->readers});
    covered = end;
  }
  if (covered < slice.end()) fresh(covered, slice.end());

  first = runs.erase(first, last);
  runs.insert(first, std::make_move_iterator(updated.begin()),
              std::make_move_iterator(updated.end()));
}

Schedule ScheduleBuilder::finish() && {
  Schedule schedule;
  schedule.steps = std::move(steps_);
  schedule.scratch_size = scratch_size_;
  link(schedule, predecessors_);
  return schedule;
}

// ---- Fusion
// -----------------------------------------------------------------------------------------

namespace {

bool touches(const Step& step, Slice slice) {
  const auto meets = [&](Slice other) {
    return other.space == slice.space && other.size != 0 && other.offset < slice.end() &&
           slice.offset < other.end();
  };
  return meets(step.src) || meets(step.src2) || meets(step.dst);
}

// The reduction that alone uses what step `recv` receives, or -1. A landing that a later receive
// uses again is fine, as long as between the two only the reduction touches it.
int64_t lone_reduction(const Schedule& schedule, uint32_t recv) {
  const Step& step = schedule.steps[recv];
  if (step.op != Op::kRecv || step.dst.space != Space::kScratch || step.dst.size == 0) return -1;
  int64_t found = -1;
  for (const uint32_t next : schedule.successors_of(recv)) {
    const Step& user = schedule.steps[next];
    if (!touches(user, step.dst)) continue;  // ordered by a fence or another operand
    const bool overwrites = user.op == Op::kRecv && user.dst == step.dst;
    if (overwrites) continue;
    const bool reduces = user.op == Op::kReduce || user.op == Op::kDecodeAdd;
    if (!reduces || user.src2 != step.dst || found >= 0) return -1;
    if (touches({.op = Op::kCopy, .src = user.src, .src2 = {}, .dst = user.dst}, step.dst))
      return -1;
    found = next;
  }
  return found;
}

}  // namespace

// Each pair becomes one step at the place of the receive, so that the order on the port stays; it
// waits for what either of them waited for. The reduction must not wait, even through others, for a
// step that the receive does not wait for and that comes after the receive on its port; since
// program order is a valid order and the pair is moved to its earlier half, it is enough that
// everything the reduction waits for stands before the receive.
Schedule fuse(const Schedule& schedule) {
  const auto predecessors = predecessors_of(schedule);
  std::vector<uint32_t> becomes(schedule.steps.size());  // reduction -> its receive
  std::vector<Step> steps = schedule.steps;
  for (uint32_t step = 0; step < steps.size(); ++step) becomes[step] = step;
  for (uint32_t recv = 0; recv < steps.size(); ++recv) {
    const int64_t reduction = lone_reduction(schedule, recv);
    if (reduction < 0) continue;
    const auto& waits_for = predecessors[static_cast<size_t>(reduction)];
    if (std::any_of(waits_for.begin(), waits_for.end(),
                    [&](uint32_t before) { return before > recv; }))
      continue;
    const Step& reduce = schedule.steps[static_cast<size_t>(reduction)];
    steps[recv] = {.op = reduce.op == Op::kReduce ? Op::kRecvReduce : Op::kRecvDecodeAdd,
                   .type = reduce.type,
                   .peer = schedule.steps[recv].peer,
                   .src = reduce.src,
                   .src2 = {},
                   .dst = reduce.dst};
    becomes[static_cast<size_t>(reduction)] = recv;
  }

  std::vector<uint32_t> place(steps.size());
  Schedule fused;
  fused.scratch_size = schedule.scratch_size;
  for (uint32_t step = 0; step < steps.size(); ++step) {
    if (becomes[step] != step) continue;
    place[step] = static_cast<uint32_t>(fused.steps.size());
    fused.steps.push_back(steps[step]);
  }
  std::vector<std::vector<uint32_t>> edges(fused.steps.size());
  for (uint32_t step = 0; step < steps.size(); ++step) {
    const uint32_t mine = place[becomes[step]];
    for (const uint32_t before : predecessors[step]) {
      const uint32_t other = place[becomes[before]];
      if (other != mine) edges[mine].push_back(other);
    }
  }
  for (auto& each : edges) {
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
  }
  link(fused, edges);
  return fused;
}

}  // namespace banyan
