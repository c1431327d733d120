// SPDX-License-Identifier: Apache-2.0

#include "algorithms/staging.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/builder.h"

namespace banyan {
namespace {

struct Bytes {
  uint64_t begin;
  uint64_t end;
};

// Disjoint, ascending, none of them empty.
using ByteRanges = std::vector<Bytes>;

// The first that ends behind `at`.
ByteRanges::const_iterator first_behind(const ByteRanges& ranges, uint64_t at) {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [at](const Bytes& range) { return range.end <= at; });
}

void add(ByteRanges& ranges, Bytes added) {
  const auto first = std::partition_point(
      ranges.begin(), ranges.end(), [&](const Bytes& range) { return range.end < added.begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= added.end; ++last) {
    added.begin = std::min(added.begin, last->begin);
    added.end = std::max(added.end, last->end);
  }
  ranges.insert(ranges.erase(first, last), added);
}

// What of `wanted` is in none of them.
ByteRanges lacking(const ByteRanges& ranges, Bytes wanted) {
  ByteRanges found;
  for (auto range = first_behind(ranges, wanted.begin);
       range != ranges.end() && range->begin < wanted.end; ++range) {
    if (wanted.begin < range->begin) found.push_back({wanted.begin, range->begin});
    wanted.begin = range->end;
  }
  if (wanted.begin < wanted.end) found.push_back(wanted);
  return found;
}

// Cut at multiples of `piece`.
ByteRanges cut(const ByteRanges& ranges, uint64_t piece) {
  ByteRanges pieces;
  for (Bytes rest : ranges) {
    for (; rest.begin < rest.end; rest.begin = pieces.back().end)
      pieces.push_back({rest.begin, std::min(rest.end, (rest.begin / piece + 1) * piece)});
  }
  return pieces;
}

// One of the caller's buffers, and the memory that stands for it.
class StagedBuffer {
 public:
  StagedBuffer(const Schedule& schedule, Space space, uint64_t piece) : space_(space) {
    ByteRanges written, read_first;
    for (const Step& step : schedule.steps) {
      for (const Slice& read : {step.src, step.src2}) {
        if (!holds(read)) continue;
        for (const Bytes& missing : lacking(written, {read.offset, read.end()}))
          add(read_first, missing);
      }
      for (const Slice& result : {step.dst, step.dst2})
        if (holds(result)) add(written, {result.offset, result.end()});
    }
    brought_in_ = cut(read_first, piece);
    taken_out_ = cut(written, piece);
    in_.resize(brought_in_.size());
    last_writer_.resize(taken_out_.size());
    for (uint32_t id = 0; id < schedule.steps.size(); ++id)
      for (const Slice& result : {schedule.steps[id].dst, schedule.steps[id].dst2})
        if (holds(result))
          for (size_t at = 0; at < meeting(taken_out_, result).size(); ++at)
            last_writer_[index_of(taken_out_, result) + at] = id;
    for (const ByteRanges* ranges : {&read_first, &written})
      if (!ranges->empty()) size_ = std::max(size_, ranges->back().end);
  }

  void take_room(ScheduleBuilder& builder) { room_ = builder.scratch(size_); }

  // Before a step that reads there.
  void bring_in(Slice read, ScheduleBuilder& builder) {
    if (!holds(read)) return;
    size_t at = index_of(brought_in_, read);
    for (const Bytes& piece : meeting(brought_in_, read)) {
      if (std::exchange(in_[at++], uint8_t{1}) == 0) copy(outside(piece), inside(piece), builder);
    }
  }
  // After the step of that number in the schedule, which has written there.
  void take_out(Slice written, uint32_t id, ScheduleBuilder& builder) {
    if (!holds(written)) return;
    size_t at = index_of(taken_out_, written);
    for (const Bytes& piece : meeting(taken_out_, written)) {
      if (last_writer_[at++] == id) copy(inside(piece), outside(piece), builder);
    }
  }
  Slice in_place_of(Slice slice) const {
    return holds(slice) ? room_.sub(slice.offset, slice.size) : slice;
  }

 private:
  bool holds(const Slice& slice) const { return slice.space == space_ && slice.size != 0; }
  Slice outside(const Bytes& piece) const { return {space_, piece.begin, piece.end - piece.begin}; }
  Slice inside(const Bytes& piece) const { return room_.sub(piece.begin, piece.end - piece.begin); }
  static size_t index_of(const ByteRanges& pieces, const Slice& slice) {
    return static_cast<size_t>(first_behind(pieces, slice.offset) - pieces.begin());
  }
  static std::span<const Bytes> meeting(const ByteRanges& pieces, const Slice& slice) {
    const auto first = first_behind(pieces, slice.offset);
    auto last = first;
    while (last != pieces.end() && last->begin < slice.end()) ++last;
    return {first, last};
  }
  static void copy(Slice from, Slice to, ScheduleBuilder& builder) {
    builder.repeat(
        {.op = Op::kCopy, .memory = MemoryKind::kDevice, .src = from, .src2 = {}, .dst = to}, {});
  }

  Space space_;
  ByteRanges brought_in_;
  std::vector<uint8_t> in_;  // by piece of those: it was brought in
  ByteRanges taken_out_;
  std::vector<uint32_t> last_writer_;  // likewise
  uint64_t size_ = 0;
  Slice room_;
};

// Gives those buffers of which some step is for the host.
Staging for_host(const Schedule& schedule, const Staging& staging) {
  Staging left = staging;
  Staging host{.codecs = staging.codecs};
  // What one buffer is staged for may be a step that touches the other, too.
  for (bool more = true; more;) {
    more = false;
    for (const Step& step : schedule.steps) {
      if (is_done_there(step, left)) continue;
      for (const Slice& slice : {step.src, step.src2, step.dst, step.dst2}) {
        if (!left.holds(slice)) continue;
        bool& of_host = slice.space == Space::kInput ? host.input : host.output;
        of_host = more = true;
        (slice.space == Space::kInput ? left.input : left.output) = false;
      }
    }
  }
  return host;
}

}  // namespace

bool is_done_there(const Step& step, const Staging& staging) {
  if (!staging.has_codec(step.codec) || step.dst2.size != 0) return false;
  if (step.codec == kNoCodec)
    return step.op == Op::kEncode && staging.holds(step.src) && staging.holds(step.dst);
  switch (step.op) {
    case Op::kSelect:
    case Op::kEncode: return staging.holds(step.src);
    case Op::kDecode: return staging.holds(step.dst);
    case Op::kDecodeAdd: return staging.holds(step.src) || staging.holds(step.dst);
    default: return false;
  }
}

Schedule stage(const Schedule& schedule, const Staging& staging, uint64_t piece) {
  const Staging host = for_host(schedule, staging);
  std::vector<StagedBuffer> buffers;
  if (host.input) buffers.emplace_back(schedule, Space::kInput, piece);
  if (host.output) buffers.emplace_back(schedule, Space::kOutput, piece);
  ScheduleBuilder builder(schedule);
  for (StagedBuffer& buffer : buffers) buffer.take_room(builder);

  const StepLists before = predecessors_of(schedule);
  std::vector<uint32_t> now_at(schedule.steps.size());
  std::vector<uint32_t> also_after;
  for (uint32_t id = 0; id < schedule.steps.size(); ++id) {
    Step step = schedule.steps[id];
    for (const Slice& slice : {step.src, step.dst})
      if (staging.holds(slice) && !host.holds(slice)) step.memory = MemoryKind::kDevice;
    for (StagedBuffer& buffer : buffers)
      for (const Slice& read : {step.src, step.src2}) buffer.bring_in(read, builder);
    for (const StagedBuffer& buffer : buffers)
      for (Slice* slice : {&step.src, &step.src2, &step.dst, &step.dst2})
        *slice = buffer.in_place_of(*slice);
    // Fences order steps that have no bytes in common.
    also_after.clear();
    for (const uint32_t earlier : before[id]) also_after.push_back(now_at[earlier]);
    now_at[id] = builder.repeat(step, also_after);
    for (StagedBuffer& buffer : buffers)
      for (const Slice& written : {schedule.steps[id].dst, schedule.steps[id].dst2})
        buffer.take_out(written, id, builder);
  }
  return std::move(builder).finish();
}

}  // namespace banyan
