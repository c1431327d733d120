// In a torus ranks lie on a grid of up to three dimensions d that closes on itself, and move data
// along rings of one dimension after the other. Each vector is cut into two shares for each
// dimension. Share c begins with dimension c, goes on with the next ones, and goes one way or the
// other around all rings, so that every rank uses all its edges at once, in both directions. That
// takes 2 sum(X_i - 1) rounds, and 2(P-1)/P of the data over 2d edges. (Jain, Sabharwal 2010.)
//
// A machine whose edges are a torus gains most where ranks are numbered along it. On any other, it
// is fewer rounds than a ring, for more messages at a time.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

class Torus {
 public:
  explicit Torus(const Group& group)
      : group_(group), shape_(torus_shape(group.size(), group.parameters)) {
    int stride = 1;
    for (const int length : shape_) {
      strides_.push_back(stride);
      stride *= length;
    }
  }

  int dimensions() const { return static_cast<int>(shape_.size()); }
  int shares() const { return 2 * dimensions(); }
  // The dimension that a share is at in a stage.
  int dimension(int share, int stage) const { return (share / 2 + stage) % dimensions(); }
  int length(int dimension) const { return shape_[static_cast<size_t>(dimension)]; }
  // The places of the ring through `place`, in the order that the share goes around it.
  std::vector<int> places_of_ring(int share, int dimension, int place) const {
    const int stride = strides_[static_cast<size_t>(dimension)];
    const int length = this->length(dimension);
    const int first = place - coordinate(place, dimension) * stride;
    std::vector<int> places;
    places.reserve(static_cast<size_t>(length));
    for (int step = 0; step < length; ++step) places.push_back(first + step * stride);
    if (share % 2 == 1) std::reverse(places.begin(), places.end());
    return places;
  }
  Group ring(int share, int dimension) const {
    return group_of(group_, places_of_ring(share, dimension, group_.me));
  }
  // Gives the places that a share still has to reach in a stage, or has reached by it: those that
  // differ from this one in dimensions of later stages only.
  std::vector<int> rest(int share, int stage) const {
    std::vector<int> places{group_.me};
    for (int later = stage + 1; later < dimensions(); ++later) {
      std::vector<int> more;
      for (const int place : places) {
        const std::vector<int> around = places_of_ring(share, dimension(share, later), place);
        more.insert(more.end(), around.begin(), around.end());
      }
      places = std::move(more);
    }
    return places;
  }

 private:
  int coordinate(int place, int dimension) const {
    return place / strides_[static_cast<size_t>(dimension)] % length(dimension);
  }

  const Group& group_;
  std::vector<int> shape_;
  std::vector<int> strides_;
};

// Moves one share of a vector that all ranks sum. In each stage the own block of the stage before
// is cut among the next ring.
class ShareOfVector {
 public:
  ShareOfVector(ScheduleBuilder& builder, const Torus& torus, const Problem& problem, Slice input,
                Slice output, int share)
      : builder_(builder),
        torus_(torus),
        problem_(problem),
        output_(output),
        share_(share),
        part_(part_of(problem.count, torus.shares(), share)),
        sum_(elements(input, part_, problem.element())) {}

  void reduce_scatter(int stage) {
    const Group ring = torus_.ring(share_, torus_.dimension(share_, stage));
    const bool first = stage == 0;
    const bool last = stage + 1 == torus_.dimensions();
    const uint64_t width = first ? problem_.element() : size_of(problem_.accumulator());
    std::vector<Part> blocks = cut_evenly(part_, ring.size());
    std::vector<Slice> inputs;
    for (const Part& block : blocks)
      inputs.push_back(elements(sum_, {block.begin - part_.begin, block.count}, width));
    const auto me = static_cast<size_t>(ring.me);
    sum_ = last ? elements(output_, blocks[me], problem_.element())
                : builder_.scratch(blocks[me].count * size_of(problem_.accumulator()));
    Accumulators sums(builder_, problem_, std::move(inputs), ring.me, sum_,
                      {.sums_in = !first, .sums_out = !last});
    ring_reduce_scatter_phase(builder_, ring, sums);
    part_ = blocks[me];
    cuts_.push_back(std::move(blocks));
  }

  void allgather(int stage) const {
    ring_allgather_phase(builder_, torus_.ring(share_, torus_.dimension(share_, stage)),
                         slices_of(output_, cuts_[static_cast<size_t>(stage)], problem_.element()));
  }

 private:
  ScheduleBuilder& builder_;
  const Torus& torus_;
  const Problem& problem_;
  Slice output_;
  int share_;
  Part part_;                            // that this rank sums from now on
  Slice sum_;                            // what it has of that
  std::vector<std::vector<Part>> cuts_;  // by stage
};

// The same share of every block.
std::vector<Slice> share_of_blocks(Slice buffer, const std::vector<Part>& blocks, uint64_t element,
                                   int shares, int share) {
  std::vector<Slice> slices;
  slices.reserve(blocks.size());
  for (const Part& block : blocks)
    slices.push_back(
        elements(buffer, cut_evenly(block, shares)[static_cast<size_t>(share)], element));
  return slices;
}

// Moves the blocks that a share sums: in each stage those of this rank's ring, and of all that lie
// behind it in later dimensions.
class ShareOfBlocks {
 public:
  ShareOfBlocks(ScheduleBuilder& builder, const Torus& torus, const Problem& problem,
                std::vector<Slice> blocks, Slice output, int share)
      : builder_(builder),
        torus_(torus),
        problem_(problem),
        blocks_(std::move(blocks)),
        output_(output),
        share_(share) {}

  void reduce_scatter(int stage) {
    const int dimension = torus_.dimension(share_, stage);
    const Group ring = torus_.ring(share_, dimension);
    const bool last = stage + 1 == torus_.dimensions();
    // The farthest first: theirs are the blocks that go on.
    const std::vector<int> rest = torus_.rest(share_, stage);
    for (size_t index = rest.size(); index-- > 0;) {
      const int place = rest[index];
      const std::vector<int> around = torus_.places_of_ring(share_, dimension, place);
      std::vector<Slice> inputs;
      for (const int each : around) inputs.push_back(at(each));
      const Slice sum = last ? output_ : builder_.scratch(accumulator_bytes(at(place), stage));
      Accumulators sums(builder_, problem_, std::move(inputs), ring.me, sum,
                        {.sums_in = stage > 0, .sums_out = !last});
      ring_reduce_scatter_phase(builder_, ring, sums);
      at(place) = sum;
    }
  }

 private:
  Slice& at(int place) { return blocks_[static_cast<size_t>(place)]; }
  uint64_t accumulator_bytes(Slice block, int stage) const {
    if (stage > 0) return block.size;
    return block.size / problem_.element() * size_of(problem_.accumulator());
  }

  ScheduleBuilder& builder_;
  const Torus& torus_;
  const Problem& problem_;
  std::vector<Slice> blocks_;  // by place: elements, then the sums of those that are still needed
  Slice output_;
  int share_;
};

bool any_share_empty(const std::vector<Part>& blocks, int shares) {
  return std::any_of(blocks.begin(), blocks.end(), [&](const Part& block) {
    return block.count < static_cast<uint64_t>(shares);
  });
}

std::vector<int> prime_factors(int number) {  // descending
  std::vector<int> factors;
  for (int factor = 2; factor * factor <= number; ++factor)
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  if (number > 1) factors.push_back(number);
  std::reverse(factors.begin(), factors.end());
  return factors;
}

}  // namespace

std::vector<int> torus_shape(int ranks, const Parameters& parameters) {
  constexpr size_t kMost = 3;  // more have fewer rounds, but more and shorter messages in each
  std::vector<int> given;
  for (const uint16_t length : parameters.dimensions)
    if (length != 0) given.push_back(length);
  if (!given.empty() && fit_ranks(parameters, ranks)) return given;
  const std::vector<int> factors = prime_factors(ranks);
  std::vector<int> shape(std::clamp<size_t>(factors.size(), 1, kMost), 1);
  for (const int factor : factors) *std::min_element(shape.begin(), shape.end()) *= factor;
  return shape;
}

void torus_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Torus torus(group);
  // Cuts of cuts are as long as these, or an element longer or shorter at each of them.
  const auto blocks = static_cast<uint64_t>(torus.shares()) * group.ranks.size();
  if (problem.count < blocks) agree(builder, group, problem);
  std::vector<ShareOfVector> shares;
  for (int share = 0; share < torus.shares(); ++share)
    shares.emplace_back(builder, torus, problem, whole_input(group, problem),
                        whole_output(group, problem), share);
  for (int stage = 0; stage < torus.dimensions(); ++stage)
    for (ShareOfVector& share : shares) share.reduce_scatter(stage);
  for (int stage = torus.dimensions(); stage-- > 0;)
    for (const ShareOfVector& share : shares) share.allgather(stage);
}

void torus_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Torus torus(group);
  const std::vector<Part> blocks = input_blocks(group, problem);
  if (any_share_empty(blocks, torus.shares())) agree(builder, group, problem);
  const Slice output = whole_output(group, problem);
  const Part own{0, output.size / problem.element()};
  std::vector<ShareOfBlocks> shares;
  for (int share = 0; share < torus.shares(); ++share)
    shares.emplace_back(
        builder, torus, problem,
        share_of_blocks(whole_input(group, problem), blocks, problem.element(), torus.shares(),
                        share),
        share_of_blocks(output, {own}, problem.element(), torus.shares(), share).front(), share);
  for (int stage = 0; stage < torus.dimensions(); ++stage)
    for (ShareOfBlocks& share : shares) share.reduce_scatter(stage);
}

void torus_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Torus torus(group);
  agree(builder, group, problem);
  const std::vector<Part> blocks = output_blocks(group, problem);
  const Slice output = whole_output(group, problem);
  builder.copy(whole_input(group, problem),
               elements(output, blocks[static_cast<size_t>(group.me)], problem.element()));
  std::vector<std::vector<Slice>> shares;
  for (int share = 0; share < torus.shares(); ++share)
    shares.push_back(share_of_blocks(output, blocks, problem.element(), torus.shares(), share));
  for (int stage = torus.dimensions(); stage-- > 0;)
    for (int share = 0; share < torus.shares(); ++share) {
      const int dimension = torus.dimension(share, stage);
      for (const int place : torus.rest(share, stage)) {
        std::vector<Slice> slices;
        for (const int each : torus.places_of_ring(share, dimension, place))
          slices.push_back(shares[static_cast<size_t>(share)][static_cast<size_t>(each)]);
        ring_allgather_phase(builder, torus.ring(share, dimension), slices);
      }
    }
}

}  // namespace banyan
