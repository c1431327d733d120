// Phases by the name that a parameter has for them.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/generators.h"

namespace banyan {

void named_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                const Problem& problem, Phase phase, bool together,
                                Accumulators& sums) {
  const Phase own = sums.sends_raw() ? Phase::kDirect : Phase::kCirculant;
  switch (phase == Phase::kOwn ? own : phase) {
    case Phase::kOwn:
    case Phase::kCirculant:
      if (together)
        circulant_reduce_scatter_phase(builder, group, sums);
      else
        pairwise_reduce_scatter_phase(builder, group, sums);
      break;
    case Phase::kRing: ring_reduce_scatter_phase(builder, group, sums); break;
    case Phase::kPairwise: pairwise_reduce_scatter_phase(builder, group, sums); break;
    case Phase::kNccl:
    case Phase::kDirect: direct_reduce_scatter_phase(builder, group, sums, problem); break;
  }
}

void named_allgather_phase(ScheduleBuilder& builder, const Group& group, Phase phase, bool apart,
                           const Blocks& slices) {
  switch (phase) {
    case Phase::kOwn:
    case Phase::kCirculant:
      if (apart)
        circulant_allgather_apart_phase(builder, group, slices);
      else
        circulant_allgather_phase(builder, group, slices);
      break;
    case Phase::kRing: ring_allgather_phase(builder, group, slices); break;
    case Phase::kPairwise:
    case Phase::kNccl:
    case Phase::kDirect: direct_allgather_phase(builder, group, slices); break;
  }
}

}  // namespace banyan
