// Generators share this: the parts of the user's buffers, accumulators, agreement; and the phases
// that several collectives are made of. Private to this folder.
//
// Indices are places in the group, 0 to P - 1; the builder is given ranks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/levels.h"
#include "algorithms/problem.h"

namespace banyan {

// The bytes of elements [part.begin, part.begin + part.count) of a buffer.
inline Slice elements(Slice buffer, Part part, uint64_t element) {
  return buffer.sub(part.begin * element, part.count * element);
}

// The user's buffers as far as this rank has them; empty where it has none.
Slice whole_input(const Group& group, const Problem& problem);
Slice whole_output(const Group& group, const Problem& problem);

// Cuts a vector among the group: allreduce, reduce and broadcast by part_of; the others as the call
// says (packed blocks of `count`, or the lists of the `v` calls).
std::vector<Part> input_blocks(const Group& group, const Problem& problem);
std::vector<Part> output_blocks(const Group& group, const Problem& problem);
std::vector<Slice> slices_of(Slice buffer, const std::vector<Part>& blocks, uint64_t element);
// Into parts as equal as can be, the first of them an element longer.
std::vector<Part> cut_evenly(Part whole, int parts);
// No gaps, in order: neighbouring blocks may share a message.
bool packed(const std::vector<Slice>& slices);

// Gives the slices of a group's blocks, by index: of a list, or of a vector's cut. A cut may have
// thousands of blocks, and only those that are asked for are computed.
class Blocks {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a list of slices is blocks already
  Blocks(std::vector<Slice> listed) : listed_(std::move(listed)) {}
  Blocks(std::initializer_list<Slice> listed) : listed_(listed) {}
  Blocks(Slice whole, uint64_t count, uint64_t width, Cut cut)
      : whole_(whole), count_(count), width_(width), cut_(cut) {}

  size_t size() const {
    return listed_.empty() ? static_cast<size_t>(cut_.members) : listed_.size();
  }
  Slice operator[](size_t index) const {
    if (!listed_.empty()) return listed_[index];
    return elements(whole_, cut_.block({0, count_}, static_cast<int>(index)), width_);
  }
  bool are_packed() const { return listed_.empty() || packed(listed_); }

 private:
  std::vector<Slice> listed_;  // empty: there is a cut
  Slice whole_;
  uint64_t count_ = 0;  // elements
  uint64_t width_ = 1;  // of one of them
  Cut cut_{.shards = 1, .members = 0};
};

// Everybody hears from everybody, ceil(log2 P) rounds of empty messages (dissemination: Hensgen,
// Finkel, Manber 1988). Later steps come after it.
void disseminate(ScheduleBuilder& builder, const Group& group);
// The same in one round of P - 1 empty messages.
void exchange_words(ScheduleBuilder& builder, const Group& group);
// Either, where the call checks its arguments.
void agree(ScheduleBuilder& builder, const Group& group, const Problem& problem);

// Leaders have heard from everybody.
void hear_all(ScheduleBuilder& builder, const Ladder& ladder);
// From who leads at the top: that all earlier steps are done, everybody's there.
void tell_all(ScheduleBuilder& builder, const Ladder& ladder);

// Copies in scratch: in place, a block that arrives would overwrite one that has not left.
std::vector<Slice> set_aside(ScheduleBuilder& builder, const std::vector<Slice>& slices);

// What a reduction begins and ends with, where it is a part of a longer one.
struct Ends {
  bool sums_in = false;   // everybody's inputs are accumulators
  bool sums_out = false;  // the finished block stays a sum; targets have room for one
};

// Holds the accumulators of one reduction, block by block. A contribution is converted when it is
// first asked for; where elements are accumulators already, it is the user's input itself.
class Accumulators {
 public:
  // targets[b]: where the finished block b goes, as elements, where this rank finishes it.
  Accumulators(ScheduleBuilder& builder, const Group& group, const Problem& problem, Blocks inputs,
               std::vector<Slice> targets);
  // Without agreement, which is the caller's.
  Accumulators(ScheduleBuilder& builder, const Problem& problem, Blocks inputs,
               std::vector<Slice> targets, Ends ends);
  // The same, where this rank finishes one block only: there may be thousands of others.
  Accumulators(ScheduleBuilder& builder, const Problem& problem, Blocks inputs, int block,
               Slice target, Ends ends);

  int blocks() const { return static_cast<int>(inputs_.size()); }
  DataType type() const { return accumulator_; }
  bool same_type() const { return accumulator_ == problem_.type; }
  // Contributions are accumulators as they are.
  bool plain() const {
    return ends_.sums_in || (same_type() && problem_.op != ReduceOp::kPreMulSum);
  }
  // Contributions may travel as elements to whoever sums them.
  bool sends_raw() const {
    return !ends_.sums_in && !same_type() && problem_.op != ReduceOp::kPreMulSum;
  }
  // The length of accumulators for contributions of that length.
  uint64_t accumulators_of(uint64_t bytes) const;
  // The raw contribution, as elements.
  Slice raw(int block) const { return inputs_[static_cast<size_t>(block)]; }
  // The contribution of this rank.
  Slice own(int block);
  // The contributions in `raw`, which may be several blocks, as accumulators.
  void widen(Slice raw, Slice dst);
  // Room for accumulators of that block.
  Slice room(int block);
  // Where the last reduction of a block writes; store() then makes elements of it.
  Slice last(int block);
  void store(int block);
  Slice target(int block) const;
  // Receives the partial sum of that block and adds this rank's `partial` to it.
  void absorb(int block, int peer, Slice partial, Slice dst);

 private:
  ScheduleBuilder& builder_;
  const Problem& problem_;
  DataType accumulator_;
  Ends ends_;
  Blocks inputs_;
  std::vector<Slice> targets_;  // empty: there is one
  int only_ = 0;
  Slice only_target_;
  std::vector<Slice> own_;  // of converted contributions; empty: not asked for yet
  std::vector<std::pair<int, Slice>> last_;
};

// Gives what travels of a block to whoever sums it: elements, or accumulators where the sender must
// scale.
Slice contribution(Accumulators& sums, int block);
// Receives the contributions of all others to a block, adds them and the own one in the order of
// indices, and stores the sum.
void add_in_order(ScheduleBuilder& builder, const Group& group, Accumulators& sums, int block,
                  const Problem& problem);
void send_to_others(ScheduleBuilder& builder, const Group& group, Slice slice);

// Where blocks end up: in the user's output, where this rank has it; otherwise in scratch.
std::vector<Slice> output_or_scratch(ScheduleBuilder& builder, const Group& group,
                                     const Problem& problem, const std::vector<Part>& blocks);

// For all-reductions cut into one block for each rank.
Accumulators accumulate_parts(ScheduleBuilder& builder, const Group& group, const Problem& problem);
// For reduce_scatter(v): only the own block has a target.
Accumulators accumulate_scatter(ScheduleBuilder& builder, const Group& group,
                                const Problem& problem);

// After it, block `me` is finished and stored. Every rank has then heard from all, unless a block
// is empty.
using ReduceScatterPhase = void (*)(ScheduleBuilder&, const Group&, Accumulators&);
void ring_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sums);
void circulant_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                    Accumulators& sums);
void pairwise_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                   Accumulators& sums);
void direct_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sums,
                                 const Problem& problem);

// Block `me` of the slices is there; after it, all are.
using AllgatherPhase = void (*)(ScheduleBuilder&, const Group&, const Blocks&);
void ring_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices);
void circulant_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices);
// With a message for each slice.
void circulant_allgather_apart_phase(ScheduleBuilder& builder, const Group& group,
                                     const Blocks& slices);
void direct_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices);

// Makes the steps of one codec, by which accumulators travel. What is empty has no slot: its
// message is a plain empty one.
class Coder {
 public:
  // Whose values: contributions of this rank, or sums, which all owners encode alike.
  enum class Of : uint8_t { kContributions, kSums };

  // Exact: it does nothing, and nothing is asked of it. Requires may_encode(problem) otherwise.
  // `raw`: contributions are elements of the caller, or sums are elements of the result.
  Coder(ScheduleBuilder& builder, const Group& group, const Problem& problem, CodecChoice codec,
        Of what, bool raw);

  bool encodes() const { return codec_ != nullptr; }
  // The same for a rank that keeps nothing: another one encodes the same values, and keeps what is
  // left of them.
  Coder kept_elsewhere() const {
    Coder coder = *this;
    coder.keeps_left_ = false;
    return coder;
  }
  // A slot for the message of so many values.
  Slice room(Slice values) const;
  // It encodes what it has selected from a whole vector.
  bool selects() const { return encodes() && codec_->select != nullptr; }
  // Empty if it does not. Where the codec looks, all ranks of the group hear of each other's
  // vectors first, and it encodes sums by the same selection.
  Slice select(const Group& group, Slice vector) const;
  bool looks() const { return encodes() && codec_->look != nullptr; }
  // Into a slot of its own: values from element `first` of the call's vector on.
  Slice encode(Slice values, uint64_t first, Slice selection = {}) const;
  // What such steps go by, and the most bytes of a message of so many values, for who has other
  // room for messages than wire slots.
  StepCodec codec_from(uint64_t first) const;
  uint64_t capacity(uint64_t count) const;
  void decode(Slice slot, Slice values) const;
  void decode_add(Slice addend, Slice slot, Slice sum) const;

 private:
  ScheduleBuilder& builder_;
  const Codec* codec_ = nullptr;
  CodecId id_ = kNoCodec;
  DataType type_;
  Coding coding_{};
  bool keeps_left_;
  bool own_;        // the values are those that this rank contributes
  uint64_t count_;  // of the call's vector
};

// A sum by a codec: everybody encodes all of its contribution, the own block, too, and sends block
// b to member b, which adds what the messages say in the order of indices. After it, block `me` is
// finished and stored, and is exact: it is encoded where the next phase does so.
// `first` has the places of the blocks in the call's vector. A selection is from all of them.
void coded_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, const Coder& coder,
                                Accumulators& sums, const std::vector<uint64_t>& first,
                                Slice selection = {});
// Block `me` of the values is there; after it, everybody has of all blocks what a message of them
// says, of its own one, too.
void coded_allgather_phase(ScheduleBuilder& builder, const Group& group, Phase phase,
                           const Coder& coder, const std::vector<Slice>& values,
                           const std::vector<uint64_t>& first, Slice selection = {});
// Makes elements of a finished sum: of accumulators, which are where the elements go, if they are
// of one type.
void finish_sum(ScheduleBuilder& builder, const Problem& problem, Slice sum, Slice elements);
// By the codec of the only level.
void coded_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem);
void coded_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem);

// Picks the phase by name. kOwn is direct where that sends raw elements. Otherwise it is circulant,
// whose blocks must lie one behind the other, or pairwise where they do not (`together` is false).
void named_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                const Problem& problem, Phase phase, bool together,
                                Accumulators& sums);
// `apart`: with a message for each slice, where that is a question. Pairwise gathers as direct.
void named_allgather_phase(ScheduleBuilder& builder, const Group& group, Phase phase, bool apart,
                           const Blocks& slices);

// Everybody has the sum of block 0 in its target.
void recursive_doubling_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sum);
// The rank `root` has stored the sum of block 0.
void binomial_reduce_phase(ScheduleBuilder& builder, const Group& group, int root,
                           Accumulators& sum);
// What is in `source` at the rank `root` goes to the `output` of all others.
void binomial_broadcast_phase(ScheduleBuilder& builder, const Group& group, int root, Slice source,
                              Slice output);

// Collectives made of the phases.
void allreduce_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  ReduceScatterPhase reduce_scatter, AllgatherPhase allgather);
void reduce_scatter_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                       ReduceScatterPhase reduce_scatter);
void reduce_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
               ReduceScatterPhase reduce_scatter);
void allgather_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  AllgatherPhase allgather);
// Scatter from the root along a binomial tree, then allgather (van de Geijn).
void broadcast_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  AllgatherPhase allgather);

#define BANYAN_GENERATOR(name) void name(ScheduleBuilder&, const Group&, const Problem&)
BANYAN_GENERATOR(recursive_doubling_allreduce);
BANYAN_GENERATOR(recursive_doubling_barrier);
BANYAN_GENERATOR(circulant_allreduce);
BANYAN_GENERATOR(circulant_reduce);
BANYAN_GENERATOR(circulant_broadcast);
BANYAN_GENERATOR(circulant_allgather);
BANYAN_GENERATOR(circulant_reduce_scatter);
BANYAN_GENERATOR(ring_allreduce);
BANYAN_GENERATOR(ring_reduce);
BANYAN_GENERATOR(ring_broadcast);
BANYAN_GENERATOR(ring_allgather);
BANYAN_GENERATOR(ring_reduce_scatter);
BANYAN_GENERATOR(binomial_allreduce);
BANYAN_GENERATOR(binomial_reduce);
BANYAN_GENERATOR(binomial_broadcast);
BANYAN_GENERATOR(binomial_gather);
BANYAN_GENERATOR(binomial_scatter);
BANYAN_GENERATOR(binomial_barrier);
BANYAN_GENERATOR(double_tree_allreduce);
BANYAN_GENERATOR(double_tree_reduce);
BANYAN_GENERATOR(double_tree_broadcast);
BANYAN_GENERATOR(bruck_allgather);
BANYAN_GENERATOR(bruck_alltoall);
BANYAN_GENERATOR(pairwise_allreduce);
BANYAN_GENERATOR(pairwise_reduce_scatter);
BANYAN_GENERATOR(pairwise_alltoall);
BANYAN_GENERATOR(dissemination_barrier);
BANYAN_GENERATOR(direct_allreduce);
BANYAN_GENERATOR(direct_reduce);
BANYAN_GENERATOR(direct_broadcast);
BANYAN_GENERATOR(direct_allgather);
BANYAN_GENERATOR(direct_reduce_scatter);
BANYAN_GENERATOR(direct_alltoall);
BANYAN_GENERATOR(direct_gather);
BANYAN_GENERATOR(direct_scatter);
BANYAN_GENERATOR(direct_barrier);
BANYAN_GENERATOR(star_allreduce);
BANYAN_GENERATOR(star_reduce);
BANYAN_GENERATOR(star_broadcast);
BANYAN_GENERATOR(star_allgather);
BANYAN_GENERATOR(star_barrier);
BANYAN_GENERATOR(hierarchical_allreduce);
BANYAN_GENERATOR(hierarchical_reduce);
BANYAN_GENERATOR(hierarchical_broadcast);
BANYAN_GENERATOR(hierarchical_allgather);
BANYAN_GENERATOR(hierarchical_reduce_scatter);
BANYAN_GENERATOR(hierarchical_alltoall);
BANYAN_GENERATOR(leaders_allreduce);
BANYAN_GENERATOR(leaders_reduce);
BANYAN_GENERATOR(leaders_broadcast);
BANYAN_GENERATOR(leaders_gather);
BANYAN_GENERATOR(leaders_scatter);
BANYAN_GENERATOR(leaders_barrier);
BANYAN_GENERATOR(torus_allreduce);
BANYAN_GENERATOR(torus_allgather);
BANYAN_GENERATOR(torus_reduce_scatter);
#undef BANYAN_GENERATOR

}  // namespace banyan
