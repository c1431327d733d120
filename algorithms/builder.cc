// SPDX-License-Identifier: Apache-2.0

#include "algorithms/builder.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace banyan {
namespace {

void link_dependencies(Schedule& schedule, const StepLists& predecessors) {
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
}

void link_ports(Schedule& schedule) {
  const auto& steps = schedule.steps;
  for (uint32_t step = 0; step < steps.size(); ++step)
    if (is_transfer(steps[step].op)) schedule.port_steps.push_back(step);
  const auto key_of = [&](uint32_t step) {
    return std::pair(steps[step].peer, steps[step].op == Op::kSend);
  };
  std::sort(schedule.port_steps.begin(), schedule.port_steps.end(),
            [&](uint32_t left, uint32_t right) {
              return std::pair(key_of(left), left) < std::pair(key_of(right), right);
            });
  schedule.port_of.assign(steps.size(), -1);
  for (uint32_t at = 0; at < schedule.port_steps.size(); ++at) {
    const auto [peer, sending] = key_of(schedule.port_steps[at]);
    auto& ports = schedule.ports;
    if (ports.empty() || ports.back().peer != peer || ports.back().sending != sending)
      ports.push_back({peer, sending, at, at});
    ports.back().end = at + 1;
    schedule.port_of[schedule.port_steps[at]] = static_cast<int32_t>(ports.size()) - 1;
  }
}

}  // namespace

StepLists predecessors_of(const Schedule& schedule) {
  StepLists found;
  found.begin.assign(schedule.steps.size() + 1, 0);
  for (size_t step = 0; step < schedule.steps.size(); ++step)
    found.begin[step + 1] = found.begin[step] + schedule.dependency_count[step];
  found.steps.resize(schedule.successors.size());
  std::vector<uint32_t> next(found.begin.begin(), found.begin.end() - 1);
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    for (const uint32_t after : schedule.successors_of(step)) found.steps[next[after]++] = step;
  return found;
}

void StepLists::close() {
  const auto first = steps.begin() + begin.back();
  std::sort(first, steps.end());
  steps.erase(std::unique(first, steps.end()), steps.end());
  begin.push_back(static_cast<uint32_t>(steps.size()));
}

ScheduleBuilder::ScheduleBuilder(const Schedule& other)
    : scratch_size_(other.scratch_size),
      slots_(other.slots),
      codings_(other.codings),
      lefts_(other.lefts),
      left_count_(other.left_count),
      window_ranks_(other.window_ranks),
      delegations_(other.delegations) {}

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

Slice ScheduleBuilder::wire_slot(uint64_t capacity) {
  Slice slot = scratch(capacity);
  slot.slot = ++slots_;
  return slot;
}

Slice ScheduleBuilder::room_for_left(Part elements, uint64_t count, bool where_they_are) {
  if (elements.count == 0) return {};
  left_count_ = std::max(left_count_, count);
  const uint64_t place = where_they_are ? elements.begin : left_count_;
  if (!where_they_are) left_count_ += elements.count;
  lefts_.push_back({place, elements});
  return {Space::kLeft, place * sizeof(float), elements.count * sizeof(float)};
}

StepCodec ScheduleBuilder::step_codec(CodecId codec, const Coding& coding) {
  assert(coding.selection == nullptr);
  if (codings_.empty()) codings_.emplace_back();
  const auto found = std::find(codings_.begin(), codings_.end(), coding);
  const auto index = static_cast<uint32_t>(found - codings_.begin());
  if (found == codings_.end()) codings_.push_back(coding);
  return {codec, index};
}

Slice ScheduleBuilder::select_by(StepCodec codec, DataType type, Slice values) {
  const Slice selection = scratch(sizeof(Selection));
  look_by(codec, type, values, selection);
  return selection;
}

void ScheduleBuilder::look_by(StepCodec codec, DataType type, Slice values, Slice look) {
  append({.op = Op::kSelect,
          .type = type,
          .codec = codec.codec,
          .coding = codec.coding,
          .src = values,
          .src2 = {},
          .dst = look});
}

void ScheduleBuilder::encode_by(StepCodec codec, DataType type, Slice values, Slice slot,
                                Slice left, Slice selection) {
  assert(slot.is_slot() && (left.size == 0 || left.size == values.size));
  append({.op = Op::kEncode,
          .type = type,
          .codec = codec.codec,
          .coding = codec.coding,
          .src = values,
          .src2 = selection,
          .dst = slot,
          .dst2 = left});
}

void ScheduleBuilder::decode_by(StepCodec codec, DataType type, Slice slot, Slice values) {
  assert(slot.is_slot());
  append({.op = Op::kDecode,
          .type = type,
          .codec = codec.codec,
          .coding = codec.coding,
          .src = slot,
          .src2 = {},
          .dst = values});
}

void ScheduleBuilder::decode_add_by(StepCodec codec, DataType type, Slice addend, Slice slot,
                                    Slice sum) {
  assert(slot.is_slot() && addend.size == sum.size);
  append({.op = Op::kDecodeAdd,
          .type = type,
          .codec = codec.codec,
          .coding = codec.coding,
          .src = addend,
          .src2 = slot,
          .dst = sum});
}

namespace {

// The least that has all of them, which lie in one space.
Slice reach_of(const std::vector<Slice>& slices) {
  Slice reach;
  for (const Slice& slice : slices) {
    if (slice.size == 0) continue;
    assert(reach.size == 0 || reach.space == slice.space);
    const uint64_t begin = reach.size == 0 ? slice.offset : std::min(reach.offset, slice.offset);
    const uint64_t end = std::max(reach.size == 0 ? 0 : reach.end(), slice.end());
    reach = {slice.space, begin, end - begin};
  }
  return reach;
}

}  // namespace

uint32_t ScheduleBuilder::add_delegation(Delegation delegation) {
  delegations_.push_back(std::move(delegation));
  return static_cast<uint32_t>(delegations_.size()) - 1;
}

Step ScheduleBuilder::delegate_step(Delegation delegation) {
  Step step{.op = Op::kDelegate,
            .memory = MemoryKind::kDevice,
            .branch = Branch::kPeers,
            .src = reach_of(delegation.to),
            .src2 = {},
            .dst = reach_of(delegation.from)};
  step.coding = add_delegation(std::move(delegation));
  return step;
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

uint32_t ScheduleBuilder::repeat(const Step& step, std::span<const uint32_t> also_after) {
  append(step, also_after);
  return static_cast<uint32_t>(steps_.size()) - 1;
}

void ScheduleBuilder::append(const Step& step, std::span<const uint32_t> also_after) {
  const auto id = static_cast<uint32_t>(steps_.size());
  steps_.push_back(step);
  if (step.branch == Branch::kAlways) steps_.back().branch = branch_;
  has_successor_.push_back(0);
  if (step.src.size != 0) touch(step.src, id, false);
  if (step.src2.size != 0) touch(step.src2, id, false);
  if (step.dst.size != 0) touch(step.dst, id, true);
  if (step.dst2.size != 0) touch(step.dst2, id, true);

  auto& found = predecessors_.steps;
  found.insert(found.end(), also_after.begin(), also_after.end());
  const auto first = found.begin() + predecessors_.begin.back();
  found.erase(std::remove(first, found.end(), id), found.end());
  const auto open = predecessors_.open();
  const bool behind =
      std::any_of(open.begin(), open.end(), [&](uint32_t before) { return before >= fence_at_; });
  if (!behind) found.insert(found.end(), before_fence_.begin(), before_fence_.end());
  predecessors_.close();
  for (const uint32_t before : predecessors_[id]) has_successor_[before] = 1;
}

// Splits the runs that the slice cuts, so that it covers whole runs, and takes from each what the
// step must wait for.
void ScheduleBuilder::touch(Slice slice, uint32_t step, bool write) {
  auto& runs = runs_[static_cast<size_t>(slice.space)];
  auto& before = predecessors_.steps;

  const auto touched = [&](uint64_t begin, uint64_t end, int64_t writer, int64_t readers) {
    if (write) {
      updated_.push_back({begin, end, step, -1});
    } else {
      updated_.push_back({begin, end, writer, static_cast<int64_t>(readers_.size())});
      readers_.push_back({step, readers});
    }
  };
  updated_.clear();
  auto first = std::partition_point(runs.begin(), runs.end(),
                                    [&](const Run& run) { return run.end <= slice.offset; });
  auto last = first;
  uint64_t covered = slice.offset;
  for (; last != runs.end() && last->begin < slice.end(); ++last) {
    if (covered < last->begin) touched(covered, last->begin, -1, -1);
    const uint64_t begin = std::max(slice.offset, last->begin);
    const uint64_t end = std::min(slice.end(), last->end);
    if (last->begin < begin) updated_.push_back({last->begin, begin, last->writer, last->readers});
    // A reader waits for the writer that it read, so who waits for readers waits for the writer.
    if ((!write || last->readers < 0) && last->writer >= 0)
      before.push_back(static_cast<uint32_t>(last->writer));
    for (int64_t at = write ? last->readers : -1; at >= 0;) {
      const Reader& reader = readers_[static_cast<size_t>(at)];
      before.push_back(reader.step);
      at = reader.earlier;
    }
    touched(begin, end, last->writer, last->readers);
    if (end < last->end) updated_.push_back({end, last->end, last->writer, last->readers});
    covered = end;
  }
  if (covered < slice.end()) touched(covered, slice.end(), -1, -1);

  first = runs.erase(first, last);
  runs.insert(first, updated_.begin(), updated_.end());
}

Schedule ScheduleBuilder::finish() && {
  Schedule schedule;
  schedule.steps = std::move(steps_);
  schedule.scratch_size = scratch_size_;
  schedule.slots = slots_;
  schedule.codings = std::move(codings_);
  schedule.lefts = std::move(lefts_);
  schedule.left_count = left_count_;
  schedule.window_ranks = std::move(window_ranks_);
  schedule.delegations = std::move(delegations_);
  link_dependencies(schedule, predecessors_);
  link_ports(schedule);
  return schedule;
}

namespace {

bool touches(const Step& step, Slice slice) {
  const auto meets = [&](Slice other) {
    return other.space == slice.space && other.size != 0 && other.offset < slice.end() &&
           slice.offset < other.end();
  };
  return meets(step.src) || meets(step.src2) || meets(step.dst) || meets(step.dst2);
}

// Finds the reduction that alone uses what step `recv` receives, or -1. A landing that a later
// receive uses again is fine, as long as between the two only the reduction touches it.
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
    if (!may_fuse(step, user)) return -1;
    found = next;
  }
  return found;
}

}  // namespace

bool may_fuse(const Step& receive, const Step& reduction) {
  const bool by_codec = receive.dst.is_slot() || reduction.codec != kNoCodec;
  const auto touched_by_host = [](const Step& step) { return step.memory != MemoryKind::kDevice; };
  return !by_codec && touched_by_host(receive) && touched_by_host(reduction);
}

// Each pair becomes one step at the place of the receive, so that the order on the port stays; it
// waits for what either of them waited for. The reduction must not wait, even through others, for a
// step that the receive does not wait for and that comes after the receive on its port. Program
// order is a valid order and the pair is moved to its earlier half. So it is enough that everything
// the reduction waits for stands before the receive.
Schedule fuse(Schedule schedule) {
  constexpr uint32_t kNone = 0xffffffff;
  auto& steps = schedule.steps;
  const StepLists predecessors = predecessors_of(schedule);
  std::vector<uint32_t> reduction_of(steps.size(), kNone);  // by receive
  std::vector<uint32_t> recv_of(steps.size(), kNone);       // by reduction
  bool any = false;
  for (uint32_t recv = 0; recv < steps.size(); ++recv) {
    const int64_t found = lone_reduction(schedule, recv);
    if (found < 0) continue;
    const auto reduction = static_cast<uint32_t>(found);
    const auto waits_for = predecessors[reduction];
    if (std::any_of(waits_for.begin(), waits_for.end(),
                    [&](uint32_t before) { return before > recv; }))
      continue;
    reduction_of[recv] = reduction;
    recv_of[reduction] = recv;
    any = true;
  }
  if (!any) return schedule;

  std::vector<uint32_t> place(steps.size());
  Schedule fused;
  fused.scratch_size = schedule.scratch_size;
  fused.slots = schedule.slots;
  fused.codings = schedule.codings;
  fused.lefts = schedule.lefts;
  fused.left_count = schedule.left_count;
  fused.window_ranks = schedule.window_ranks;
  fused.delegations = schedule.delegations;
  for (uint32_t step = 0; step < steps.size(); ++step) {
    if (recv_of[step] != kNone) {
      place[step] = place[recv_of[step]];
      continue;
    }
    place[step] = static_cast<uint32_t>(fused.steps.size());
    fused.steps.push_back(steps[step]);
    if (reduction_of[step] == kNone) continue;
    const Step& reduce = steps[reduction_of[step]];
    fused.steps.back() = {.op = reduce.op == Op::kReduce ? Op::kRecvReduce : Op::kRecvDecodeAdd,
                          .type = reduce.type,
                          .memory = reduce.memory,
                          .branch = reduce.branch,
                          .peer = steps[step].peer,
                          .src = reduce.src,
                          .src2 = {},
                          .dst = reduce.dst};
  }
  StepLists edges;
  const auto add = [&](uint32_t step, uint32_t mine) {
    for (const uint32_t before : predecessors[step])
      if (place[before] != mine) edges.steps.push_back(place[before]);
  };
  for (uint32_t step = 0; step < steps.size(); ++step) {
    if (recv_of[step] != kNone) continue;
    add(step, place[step]);
    if (reduction_of[step] != kNone) add(reduction_of[step], place[step]);
    edges.close();
  }
  link_dependencies(fused, edges);
  link_ports(fused);
  return fused;
}

}  // namespace banyan
