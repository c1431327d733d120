// SPDX-License-Identifier: Apache-2.0

#include "algorithms/staging.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "compression/codecs.h"

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

bool meet(const ByteRanges& ranges, Bytes bytes) {
  const auto range = first_behind(ranges, bytes.begin);
  return range != ranges.end() && range->begin < bytes.end;
}

ByteRanges cut_at(const std::vector<uint64_t>& places, const ByteRanges& ranges) {
  ByteRanges pieces;
  for (Bytes rest : ranges) {
    auto place = std::upper_bound(places.begin(), places.end(), rest.begin);
    for (; place != places.end() && *place < rest.end; ++place) {
      if (*place == rest.begin) continue;  // twice
      pieces.push_back({rest.begin, *place});
      rest.begin = *place;
    }
    pieces.push_back(rest);
  }
  return pieces;
}

// Steps that work on the caller's buffers where they are, whoever does the others: those with
// windows, and what comes before them.
bool leaves_buffers(const Step& step) {
  return step.branch == Branch::kPeers || step.op == Op::kOffer || step.op == Op::kDecide;
}

// By step: it goes by another way than the memory that stands for the buffers.
using Direct = std::vector<uint8_t>;

// What the others read and write in the buffers that they cannot touch.
struct Touched {
  std::array<ByteRanges, kSpaceCount> read, written;

  Touched(const Schedule& schedule, const Staging& staging, const Direct& direct) {
    for (size_t id = 0; id < schedule.steps.size(); ++id) {
      const Step& step = schedule.steps[id];
      if (direct[id] != 0 || leaves_buffers(step)) continue;
      for (const Slice& slice : {step.src, step.src2})
        if (staging.holds(slice)) add_to(read, slice);
      for (const Slice& slice : {step.dst, step.dst2})
        if (staging.holds(slice)) add_to(written, slice);
    }
  }
  bool writes(const Slice& slice) const { return meets(written, slice); }
  bool reads(const Slice& slice) const { return meets(read, slice); }

 private:
  static void add_to(std::array<ByteRanges, kSpaceCount>& ranges, const Slice& slice) {
    add(ranges[static_cast<size_t>(slice.space)], {slice.offset, slice.end()});
  }
  static bool meets(const std::array<ByteRanges, kSpaceCount>& ranges, const Slice& slice) {
    return slice.size != 0 &&
           meet(ranges[static_cast<size_t>(slice.space)], {slice.offset, slice.end()});
  }
};

// A message that its transport takes from such a buffer or brings there, or a copy between two.
bool could_be_direct(const Step& step, const Staging& staging,
                     std::span<const uint64_t> direct_from) {
  const Slice& message = step.op == Op::kSend ? step.src : step.dst;
  switch (step.op) {
    case Op::kSend:
    case Op::kRecv:
      return staging.holds(message) && !message.is_slot() &&
             message.size >= direct_from[static_cast<size_t>(step.peer)];
    case Op::kCopy: return staging.holds(step.src) && staging.holds(step.dst);
    default: return false;
  }
}

// Each step that turns out not to be may keep others from it.
Direct direct_steps(const Schedule& schedule, const Staging& staging,
                    std::span<const uint64_t> direct_from) {
  Direct direct(schedule.steps.size());
  if (direct_from.empty()) return direct;
  for (size_t id = 0; id < schedule.steps.size(); ++id) {
    const Step& step = schedule.steps[id];
    direct[id] = !leaves_buffers(step) && could_be_direct(step, staging, direct_from) ? 1 : 0;
  }
  for (bool more = true; more;) {
    more = false;
    const Touched others(schedule, staging, direct);
    for (size_t id = 0; id < schedule.steps.size(); ++id) {
      const Step& step = schedule.steps[id];
      if (direct[id] == 0) continue;
      if (!others.writes(step.src) && !others.writes(step.dst) && !others.reads(step.dst)) continue;
      direct[id] = 0;
      more = true;
    }
  }
  return direct;
}

// One of the caller's buffers, and the memory that stands for it. Copies that only one branch needs
// are of that branch.
class StagedBuffer {
 public:
  StagedBuffer(const Schedule& schedule, const Direct& direct, Space space, uint64_t piece)
      : space_(space) {
    ByteRanges written, read_first;          // of any step
    ByteRanges always_written, always_read;  // of steps that both branches have
    const auto goes_by_it = [&](size_t id) {
      return direct[id] == 0 && !leaves_buffers(schedule.steps[id]);
    };
    for (size_t id = 0; id < schedule.steps.size(); ++id) {
      const Step& step = schedule.steps[id];
      if (!goes_by_it(id)) continue;
      const bool always = step.branch == Branch::kAlways;
      for (const Slice& read : {step.src, step.src2}) {
        if (!holds(read)) continue;
        for (const Bytes& missing : lacking(written, {read.offset, read.end()})) {
          add(read_first, missing);
          if (always) add(always_read, missing);
        }
      }
      for (const Slice& result : {step.dst, step.dst2}) {
        if (!holds(result)) continue;
        add(written, {result.offset, result.end()});
        if (always) add(always_written, {result.offset, result.end()});
      }
    }
    in_pieces(read_first, always_read, piece, {}, brought_in_);
    in_pieces(written, always_written, piece, ends_of_reads(schedule), taken_out_);
    in_.resize(brought_in_.ranges.size());
    last_writer_.resize(taken_out_.ranges.size());
    for (uint32_t id = 0; id < schedule.steps.size(); ++id) {
      if (!goes_by_it(id)) continue;
      for (const Slice& result : {schedule.steps[id].dst, schedule.steps[id].dst2})
        if (holds(result))
          for (size_t at = 0; at < meeting(taken_out_.ranges, result).size(); ++at)
            last_writer_[index_of(taken_out_.ranges, result) + at] = id;
    }
    for (const ByteRanges* ranges : {&read_first, &written})
      if (!ranges->empty()) size_ = std::max(size_, ranges->back().end);
  }

  void take_room(ScheduleBuilder& builder) { room_ = builder.scratch(size_); }

  // What decides for a branch, once it is in the schedule.
  void decided_by(uint32_t id) { decision_ = {id}; }
  // Before a step that reads there.
  void bring_in(Slice read, ScheduleBuilder& builder) {
    if (!holds(read)) return;
    size_t at = index_of(brought_in_.ranges, read);
    for (const Bytes& piece : meeting(brought_in_.ranges, read)) {
      const Branch branch = brought_in_.branches[at];
      if (std::exchange(in_[at++], uint8_t{1}) == 0)
        copy(outside(piece), inside(piece), branch, builder);
    }
  }
  // After the step of that number in the schedule, which has written there.
  void take_out(Slice written, uint32_t id, ScheduleBuilder& builder) {
    if (!holds(written)) return;
    size_t at = index_of(taken_out_.ranges, written);
    for (const Bytes& piece : meeting(taken_out_.ranges, written)) {
      const Branch branch = taken_out_.branches[at];
      if (last_writer_[at++] == id) copy(inside(piece), outside(piece), branch, builder);
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
  void copy(Slice from, Slice to, Branch branch, ScheduleBuilder& builder) const {
    builder.repeat({.op = Op::kCopy,
                    .memory = MemoryKind::kDevice,
                    .branch = branch,
                    .src = from,
                    .src2 = {},
                    .dst = to},
                   branch == Branch::kAlways ? std::vector<uint32_t>() : decision_);
  }

  struct Pieces {
    ByteRanges ranges;
    std::vector<Branch> branches;  // of the copy of each
  };
  // Where what is read in the buffer itself begins and ends: it must be there by then, and its
  // neighbours need not.
  std::vector<uint64_t> ends_of_reads(const Schedule& schedule) const {
    std::vector<uint64_t> ends;
    for (const Step& step : schedule.steps)
      if (step.branch == Branch::kPeers && holds(step.src))
        ends.insert(ends.end(), {step.src.offset, step.src.end()});
    std::sort(ends.begin(), ends.end());
    return ends;
  }
  // `always` are some of `all`.
  static void in_pieces(const ByteRanges& all, const ByteRanges& always, uint64_t piece,
                        const std::vector<uint64_t>& ends, Pieces& pieces) {
    const auto add_of = [&](const ByteRanges& ranges, Branch branch) {
      for (const Bytes& bytes : cut_at(ends, cut(ranges, piece))) {
        const auto at = first_behind(pieces.ranges, bytes.begin) - pieces.ranges.begin();
        pieces.ranges.insert(pieces.ranges.begin() + at, bytes);
        pieces.branches.insert(pieces.branches.begin() + at, branch);
      }
    };
    add_of(always, Branch::kAlways);
    ByteRanges others;
    for (const Bytes& bytes : all)
      for (const Bytes& missing : lacking(always, bytes)) others.push_back(missing);
    add_of(others, Branch::kOtherwise);
  }

  Space space_;
  std::vector<uint32_t> decision_;
  Pieces brought_in_;
  std::vector<uint8_t> in_;  // by piece of those: it was brought in
  Pieces taken_out_;
  std::vector<uint32_t> last_writer_;  // likewise
  uint64_t size_ = 0;
  Slice room_;
};

// Gives those buffers of which some step is for the host.
Staging for_host(const Schedule& schedule, const Staging& staging, const Direct& direct) {
  Staging there = staging;
  Staging host{.codecs = staging.codecs};
  // What one buffer is staged for may be a step that touches the other, too.
  for (bool more = true; more;) {
    more = false;
    for (size_t id = 0; id < schedule.steps.size(); ++id) {
      const Step& step = schedule.steps[id];
      if (direct[id] != 0 || leaves_buffers(step) || is_done_there(step, there)) continue;
      for (const Slice& slice : {step.src, step.src2, step.dst, step.dst2}) {
        if (!there.holds(slice) || slice.space == Space::kLeft) continue;
        bool& of_host = slice.space == Space::kInput ? host.input : host.output;
        of_host = more = true;
        (slice.space == Space::kInput ? there.input : there.output) = false;
      }
    }
  }
  return host;
}

void copy_out(Slice from, Slice to, Branch branch, ScheduleBuilder& builder) {
  builder.repeat({.op = Op::kCopy,
                  .memory = MemoryKind::kDevice,
                  .branch = branch,
                  .src = from,
                  .src2 = {},
                  .dst = to},
                 {});
}

}  // namespace

bool is_done_there(const Step& step, const Staging& staging) {
  if (!staging.has_codec(step.codec)) return false;
  if (step.dst2.size != 0 &&
      !(staging.left && step.dst2.size != 0 && step.dst2.space == Space::kLeft))
    return false;
  if (step.codec == kNoCodec)
    return step.op == Op::kEncode && staging.holds(step.src) && staging.holds(step.dst);
  switch (step.op) {
    // Who encodes by what it has selected itself must know that first, and a GPU ends later.
    case Op::kEncode:
      return staging.holds(step.src) && (step.codec != kTopk || step.src2.size != 0);
    case Op::kSelect: return staging.holds(step.src);
    case Op::kDecode: return staging.holds(step.dst);
    case Op::kDecodeAdd: return staging.holds(step.src) || staging.holds(step.dst);
    default: return false;
  }
}

Schedule stage(const Schedule& schedule, const Staging& staging, uint64_t piece,
               std::span<const uint64_t> direct_from) {
  const Direct direct = direct_steps(schedule, staging, direct_from);
  const Staging host = for_host(schedule, staging, direct);
  std::vector<StagedBuffer> buffers;
  if (host.input) buffers.emplace_back(schedule, direct, Space::kInput, piece);
  if (host.output) buffers.emplace_back(schedule, direct, Space::kOutput, piece);
  ScheduleBuilder builder(schedule);
  for (StagedBuffer& buffer : buffers) buffer.take_room(builder);

  const StepLists before = predecessors_of(schedule);
  std::vector<uint32_t> now_at(schedule.steps.size());
  std::vector<uint32_t> also_after;
  for (uint32_t id = 0; id < schedule.steps.size(); ++id) {
    Step step = schedule.steps[id];
    const bool leaves = leaves_buffers(step) || direct[id] != 0;
    if (direct[id] != 0) step.memory = MemoryKind::kDevice;
    for (const Slice& slice : {step.src, step.dst})
      if (staging.holds(slice) && !host.holds(slice)) step.memory = MemoryKind::kDevice;
    for (StagedBuffer& buffer : buffers)
      for (const Slice& read : {step.src, step.src2})
        if (!leaves) buffer.bring_in(read, builder);
    for (const StagedBuffer& buffer : buffers)
      for (Slice* slice : {&step.src, &step.src2, &step.dst, &step.dst2})
        if (!leaves) *slice = buffer.in_place_of(*slice);
    // Fences order steps that have no bytes in common.
    also_after.clear();
    for (const uint32_t earlier : before[id]) also_after.push_back(now_at[earlier]);
    const bool leaves_by_host =
        staging.left && step.dst2.space == Space::kLeft && step.memory == MemoryKind::kHost;
    if (leaves_by_host) step.dst2 = builder.scratch(step.dst2.size);
    now_at[id] = builder.repeat(step, also_after);
    if (leaves_by_host) copy_out(step.dst2, schedule.steps[id].dst2, step.branch, builder);
    if (step.op == Op::kDecide)
      for (StagedBuffer& buffer : buffers) buffer.decided_by(now_at[id]);
    if (leaves) continue;
    for (StagedBuffer& buffer : buffers)
      for (const Slice& written : {schedule.steps[id].dst, schedule.steps[id].dst2})
        buffer.take_out(written, id, builder);
  }
  return std::move(builder).finish();
}

}  // namespace banyan
