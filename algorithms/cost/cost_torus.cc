// In every round of a torus a rank passes on a message of each share, two for each dimension.
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/cost/cost_rounds.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

using enum Collective;

class OnTorus {
 public:
  OnTorus(const CostModel& model, const Site& site, const Volume& volume)
      : site_(site),
        shape_(torus_shape(site.ranks(), volume.parameters)),
        ranks_(site.ranks()),
        volume_(volume),
        cost_(model, site, volume.buffers) {}

  double allreduce() {
    widen(volume_.bytes);
    half(volume_.bytes * volume_.wide, Half::kReduceScatter, false);
    narrow(volume_.bytes / ranks_);
    half(volume_.bytes, Half::kAllgather, false);
    return cost_.us();
  }
  double reduce_scatter() {
    widen(volume_.bytes * ranks_);
    half(volume_.bytes * ranks_ * volume_.wide, Half::kReduceScatter, true);
    narrow(volume_.bytes);
    return cost_.us();
  }
  double allgather(bool agreed) {
    if (agreed) agree_cost(cost_, site_);
    cost_.copy(volume_.bytes, ranks_);
    half(volume_.bytes * ranks_, Half::kAllgather, true);
    return cost_.us();
  }

 private:
  // `bytes`: of the whole vector as it travels. `apart`: a message for every block in it.
  void half(double bytes, Half half, bool apart) {
    const size_t dimensions = shape_.size();
    int stride = 1;
    for (size_t dimension = 0; dimension < dimensions; ++dimension) {
      const double length = shape_[dimension];
      double moved = 0, messages = 0;
      for (size_t first = 0; first < dimensions; ++first) {
        // What the share has gone through by the time it comes here has cut it to this part.
        double before = 1;
        for (size_t each = first; each != dimension; each = (each + 1) % dimensions)
          before *= shape_[each];
        moved += bytes / static_cast<double>(dimensions) / before / length;
        messages += 2 * (apart ? ranks_ / before / length : 1);
      }
      cost_.add({.messages = messages,
                 .bytes = moved / messages,
                 .peers = 2.0 * static_cast<double>(dimensions),
                 .active = ranks_,
                 .far = site_.far(stride),
                 .summed = half == Half::kReduceScatter ? moved / messages : 0},
                length - 1);
      stride *= shape_[dimension];
    }
  }
  void widen(double bytes) {
    if (volume_.narrow) cost_.codec(bytes * volume_.wide, ranks_);
  }
  void narrow(double bytes) { widen(bytes); }

  const Site& site_;
  std::vector<int> shape_;
  double ranks_;
  const Volume& volume_;
  Cost cost_;
};

}  // namespace

double torus_cost(const Problem& problem, const CostModel& model, const Site& site,
                  const Volume& volume) {
  OnTorus torus(model, site, volume);
  switch (problem.collective) {
    case kAllreduce: return torus.allreduce();
    case kReduceScatter:
    case kReduceScatterv: return torus.reduce_scatter();
    case kAllgather:
    case kAllgatherv: return torus.allgather(problem.check);
    case kReduce:
    case kBroadcast:
    case kAlltoall:
    case kAlltoallv:
    case kGather:
    case kScatter:
    case kBarrier:
    case kSend:
    case kRecv:
    case kFinalize:
    case kSplit: break;
  }
  return 0;
}

}  // namespace banyan
