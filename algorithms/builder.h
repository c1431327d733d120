// The builder appends steps in program order and derives their dependencies from what they read and
// write.
//
// Two steps are ordered exactly when they touch the same bytes and at least one writes them. An
// algorithm therefore never names a dependency, and cannot forget one. (After MSCCLang's
// last-writer / last-readers rule, Cowan et al., ASPLOS 2023.)
//
//   ScheduleBuilder builder;
//   const Slice input{Space::kInput, 0, 4096}, output{Space::kOutput, 0, 4096};
//   const Slice theirs = builder.scratch(4096);
//   builder.send(input, peer);
//   builder.recv(theirs, peer);
//   builder.reduce(DataType::kFloat32, input, theirs, output);  // waits for the receive only
//   builder.copy(output, builder.scratch(4096));                // waits for the sum
//   const Schedule schedule = fuse(std::move(builder).finish());
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

// Lists of steps, one behind the other in one piece of memory.
struct StepLists {
  std::vector<uint32_t> begin{0};
  std::vector<uint32_t> steps;

  std::span<const uint32_t> operator[](size_t list) const {
    return std::span(steps).subspan(begin[list], begin[list + 1] - begin[list]);
  }
  // The list that push_back() on `steps` goes on with.
  std::span<uint32_t> open() { return std::span(steps).subspan(begin.back()); }
  // Ends that list: sorted, each step once.
  void close();
};

// By step: those that it waits for, ascending.
StepLists predecessors_of(const Schedule& schedule);

struct StepCodec {
  CodecId codec = kNoCodec;
  uint32_t coding = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): a codec that goes by the plain coding
  constexpr StepCodec(CodecId id = kNoCodec, uint32_t goes_by = 0) : codec(id), coding(goes_by) {}
};

class ScheduleBuilder {
 public:
  ScheduleBuilder() = default;
  // Begins with the working memory, the wire slots, the codings and the room for what is left of
  // that schedule, for its steps to be repeated.
  explicit ScheduleBuilder(const Schedule& other);

  // 64-byte aligned, never overlapping an earlier one.
  Slice scratch(uint64_t bytes);

  // Empty slices are allowed: a message of 0 bytes still is a message; an empty local step is none.
  void send(Slice src, int peer);
  void recv(Slice dst, int peer);
  void copy(Slice src, Slice dst);
  void reduce(DataType type, Slice left, Slice right, Slice dst);
  void encode(DataType element, Slice src, Slice dst);
  void decode(DataType element, Slice src, Slice dst);
  void decode_add(DataType element, Slice accumulator, Slice src, Slice dst);

  // A wire slot, for messages of at most so many bytes. It is sent and received as a whole.
  Slice wire_slot(uint64_t capacity);
  // Room in kLeft for what a message does not say of these elements of a vector of `count`. It is
  // where they are in the vector, which may be asked for once, or behind all others.
  Slice room_for_left(Part elements, uint64_t count, bool where_they_are);
  // A codec with what its steps go by.
  StepCodec step_codec(CodecId codec, const Coding& coding);
  // Steps by a codec; values are of `type`. What a message does not say of them goes to `left`, if
  // it is not empty. A selection is what select_by() has made of what the values are a part of.
  Slice select_by(StepCodec codec, DataType type, Slice values);
  // The codec's look goes to `look`.
  void look_by(StepCodec codec, DataType type, Slice values, Slice look);
  void encode_by(StepCodec codec, DataType type, Slice values, Slice slot, Slice left = {},
                 Slice selection = {});
  void decode_by(StepCodec codec, DataType type, Slice slot, Slice values);
  void decode_add_by(StepCodec codec, DataType type, Slice addend, Slice slot, Slice sum);

  // Later steps are of that branch, but for those that are of one by themselves.
  void on(Branch branch) { branch_ = branch; }
  // As Schedule::window_ranks.
  void set_window_ranks(std::vector<int32_t> ranks) { window_ranks_ = std::move(ranks); }

  // The number of that, for a step that goes by it.
  uint32_t add_delegation(Delegation delegation);
  // A kDelegate of that, to be repeated: what it gives lies in one space, and what it takes, too.
  Step delegate_step(Delegation delegation);

  // Every later step waits for every earlier one.
  void fence();

  // Any step, which also waits for those before it that are given. Returns its number.
  uint32_t repeat(const Step& step, std::span<const uint32_t> also_after);

  Schedule finish() &&;

 private:
  // A maximal run of bytes with the same history since its last write.
  struct Run {
    uint64_t begin;
    uint64_t end;
    int64_t writer;   // -1: not written by this schedule
    int64_t readers;  // since `writer`: the latest, in readers_; -1: none
  };
  // Lists that grow at their head, so that runs which are split go on sharing a tail.
  struct Reader {
    uint32_t step;
    int64_t earlier;
  };

  void append(const Step& step, std::span<const uint32_t> also_after = {});
  void touch(Slice slice, uint32_t step, bool write);

  std::vector<Step> steps_;
  uint64_t scratch_size_ = 0;
  uint32_t slots_ = 0;
  std::vector<Coding> codings_;
  std::vector<Left> lefts_;
  uint64_t left_count_ = 0;
  std::vector<int32_t> window_ranks_;
  std::vector<Delegation> delegations_;
  Branch branch_ = Branch::kAlways;
  StepLists predecessors_;
  std::vector<uint8_t> has_successor_;
  std::vector<Run> runs_[kSpaceCount];  // sorted, disjoint
  std::vector<Reader> readers_;
  std::vector<Run> updated_;            // in touch() only; a member to keep its memory
  uint32_t fence_at_ = 0;               // the first step after the latest fence
  std::vector<uint32_t> before_fence_;  // what all earlier steps lead to
};

// Whether a message may be reduced while it comes, instead of being received before. A codec needs
// the whole message, and the host must touch what it reduces.
bool may_fuse(const Step& receive, const Step& reduction);

// Replaces a receive into scratch that is read by exactly one kReduce or kDecodeAdd, and by nothing
// else, by one step that reduces straight from the message. Keeps the result and all orders.
// may_fuse() says of which pairs.
Schedule fuse(Schedule schedule);

}  // namespace banyan
