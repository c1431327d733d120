// One segment of a vector on its way up and down the stages of a hierarchy. Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "algorithms/generators.h"
#include "algorithms/host_windows.h"
#include "algorithms/levels.h"

namespace banyan {

class SegmentFlow {
 public:
  // `chained`: at the top, data goes from rank to rank, the source being the first or the last;
  // good where many segments follow each other.
  SegmentFlow(ScheduleBuilder& builder, const Group& group, const Problem& problem,
              const Stages& stages, Part vector, bool chained);
  // Inside this rank's host it goes by windows where it can.
  void use(HostWindows& windows) { windows_ = &windows; }

  // Upwards: sums the blocks of the own part, and hands the shards of the own one to the next
  // layer.
  void reduce(int layer);
  // Downwards: the results of the own block to the own part, and theirs here.
  void gather(int layer) const;
  // Downwards: the results of the part's blocks to its source.
  void collect(int layer) const;
  // Upwards: from the source of the part, the blocks to their owners.
  void spread(int layer) const;

 private:
  struct Piece {
    Part elements;  // of the caller's vector
    Slice where;    // what this rank has of them
    bool is_sum;    // in accumulators; otherwise its contribution
  };

  const Piece& piece(int layer, size_t index) const {
    return pieces_[static_cast<size_t>(layer)][index];
  }
  uint64_t width_of(const Piece& piece) const;
  Slice part_of_piece(const Piece& piece, Part part) const;
  // Where the finished elements of a part are, or go to.
  Slice result(Part part) const;
  // What the source of a team gives away: the caller's input at the root, what has come at others.
  Slice given(const Stage& stage, Part part) const;
  Piece widened(const Piece& given);
  Piece reduce_inside(const Stage& stage, const Piece& given, int layer);
  bool by_windows(int layer) const { return windows_ != nullptr && layer == 0; }
  // Elements of the blocks of a part, which `all` has.
  std::vector<Slice> blocks_of(const Stage& stage, Slice all) const;
  // The coders of a level.
  struct Coders {
    Coder contributions;
    Coder sums;

    Coders(ScheduleBuilder& builder, const Group& group, const Problem& problem, CodecChoice codec,
           bool raw)
        : contributions(builder, group, problem, codec, Coder::Of::kContributions, raw),
          sums(builder, group, problem, codec, Coder::Of::kSums, true) {}
    bool encode() const { return sums.encodes(); }
  };
  const Coders& coders(int layer) const {
    return layer == stages_.top() ? inter_coders_ : intra_coders_;
  }
  // What comes down to that layer are sums still.
  bool has_sums(int layer) const { return intra_coders_.encode() || coders(layer).encode(); }
  // Where the sums of a part are on their way down.
  Slice sum(Part part) const;
  void gather_coded(const Stage& stage, Part vector, int layer) const;
  void reduce_chain(const Stage& stage, const Piece& given);
  void pass_chain(const Stage& stage, Part vector) const;

  ScheduleBuilder& builder_;
  const Problem& problem_;
  const Stages& stages_;
  bool chained_;
  bool is_root_;
  Phase intra_;  // below the top
  Phase inter_;  // at the top
  Coders intra_coders_;
  Coders inter_coders_;
  HostWindows* windows_ = nullptr;  // null: it goes by the host
  Slice input_;
  Part kept_{};  // elements whose results this rank has room for, at `results_`
  Slice results_;
  Part summed_{};  // elements whose sums this rank has on their way down, at `sums_`, if any
  Slice sums_;
  std::vector<std::vector<Piece>> pieces_;  // by layer, one for each stage
};

}  // namespace banyan
