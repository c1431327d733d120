// Dissemination: a barrier of ceil(log2 P) rounds (Hensgen, Finkel, Manber 1988).
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/generators.h"

namespace banyan {

void dissemination_barrier(ScheduleBuilder& builder, const Group& group, const Problem&) {
  disseminate(builder, group);
}

}  // namespace banyan
