// What is to be done: one call, without its addresses. With a Group it determines a schedule.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/parameters.h"
#include "algorithms/schedule.h"
#include "banyan/types.h"
#include "src/base/codec.h"
#include "topology/hierarchy.h"

namespace banyan {

// A group has the ranks taking part, in the order the algorithm should use, and which of them we
// are. Blocks of buffers go by place in the group, so a permuted group serves allreduce, reduce,
// broadcast and the synchronising calls only.
struct Group {
  std::vector<int> ranks;
  int me = 0;
  // This says how the places lie, the same on all ranks. Null, or without levels: flat. It belongs
  // to whoever makes the group, and outlives it. Among the generators of flat schedules only rings
  // look at it.
  const Hierarchy* hierarchy = nullptr;
  // How the algorithm goes about it, the same on all ranks.
  Parameters parameters{};
  // The codecs that the parameters number, which outlive the group.
  std::span<const Codec> codecs{};
  // Ranks of one part of the lowest level may have windows (peers.h); the same on all ranks.
  bool has_windows_inside = false;

  static Group everyone(int size, int rank, const Hierarchy* hierarchy = nullptr,
                        const Parameters& parameters = {});
  int size() const { return static_cast<int>(ranks.size()); }
  int wrap(int index) const {
    const int rest = index % size();
    return rest < 0 ? rest + size() : rest;
  }
  // The rank at an index taken modulo size; may be negative.
  int at(int index) const { return ranks[static_cast<size_t>(wrap(index))]; }
  // The index of a rank that is in the group.
  int place_of(int rank) const;
};
// Where vectors are cut that go by the group's codecs: at multiples of so many elements.
uint64_t unit_of(const Group& group);

// One rank to one other; no collective.
inline bool is_message(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kRecv;
}

// In place of a codec: the one, or none, that is predicted to take the least time.
inline constexpr CodecId kAutomatic = UINT8_MAX;

// By which codecs sums may travel.
struct Compression {
  CodecChoice intra{};          // inside hosts, where there are several
  CodecChoice inter{};          // between hosts
  CodecChoice alone{};          // on one host
  uint64_t least_bytes = 4096;  // shorter vectors stay exact
  uint64_t seed = 0;            // of what goes by chance

  bool operator==(const Compression&) const = default;
  bool is_exact() const { return intra.is_exact() && inter.is_exact() && alone.is_exact(); }
};

// Which of the caller's buffers this rank's host cannot touch, so that stage() is to be used. Other
// ranks need not know of it.
struct Staging {
  bool input = false;
  bool output = false;
  bool left = false;  // Space::kLeft
  // Bit c: whoever can touch them encodes and decodes there by codec c; bit 0, divides there.
  uint32_t codecs = 0;

  bool operator==(const Staging&) const = default;
  bool any() const { return input || output || left; }
  bool holds(const Slice& slice) const {
    return slice.size != 0 &&
           ((input && slice.space == Space::kInput) || (output && slice.space == Space::kOutput) ||
            (left && slice.space == Space::kLeft));
  }
  bool has_codec(CodecId codec) const { return (codecs >> codec & 1) != 0; }
};

struct Problem {
  Collective collective = Collective::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t count = 0;  // elements, as the C call has it
  int root = 0;        // or the peer of kSend and kRecv
  bool in_place = false;
  // Every rank must have heard from all others before it writes kOutput (argument agreement).
  bool check = true;
  // Elements; used by the calls with a `v` only. Displacements are never empty there.
  std::vector<uint64_t> send_counts{}, send_displacements{}, recv_counts{}, recv_displacements{};

  MemoryKind memory = MemoryKind::kHost;  // in which steps work and messages lie
  Staging staging{};
  Compression compression{};  // what the caller accepts
  bool invariant = false;     // sums_in_rank_order()
  // What messages of codecs do not say is written to Space::kLeft. Over all ranks, that and the
  // result are the exact sum. Requires may_keep_left().
  bool keeps_left = false;

  bool operator==(const Problem&) const = default;

  uint64_t element() const { return size_of(type); }
  DataType accumulator() const { return accumulator_of(type, op); }
};

// Whether a codec may stand for the values of this call: it sums float32, float16 or bfloat16,
// whose accumulators are float32.
bool may_encode(const Problem& problem);

// What may go by a codec and keep what is left: allreduce, float32, sum.
bool may_keep_left(const Problem& problem);

// Whether the call's bits must be those of its ranks' values and of their numbers alone: it is
// `invariant`, and sums or multiplies floats, whose roundings depend on the order.
bool sums_in_rank_order(const Problem& problem);

// With `count` elements; where blocks may be of different lengths, all have so many.
Problem equal_blocks(Collective collective, DataType type, uint64_t count, int ranks);

// The first n % parts of n elements cut in `parts` are one element longer.
Part part_of(uint64_t n, int parts, int index);
// The same in units of so many elements; the last unit may be shorter.
Part part_of_units(uint64_t n, uint64_t unit, int parts, int index);

}  // namespace banyan
