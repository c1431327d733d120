// Tells which send meets which receive in the schedules of several ranks, and how deep every step
// lies. It is for people who look at schedules (print.h, explain.h); no call runs through here.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

struct StepAt {
  size_t schedule;  // index into the schedules, not a rank
  uint32_t step;
};

struct Message {
  StepAt from;
  StepAt to;
};

// The n-th send of a rank to a peer meets the n-th receive there. `ranks[i]` is the rank of
// `schedules[i]`; what goes to or comes from a rank that is not among them is left out.
std::vector<Message> match_messages(std::span<const Schedule> schedules,
                                    std::span<const int> ranks);

// What one edge adds to the length of a chain.
struct EdgeWeights {
  uint32_t dependency;
  uint32_t message;
};
// Gives for each schedule and step the longest chain that leads to it. Steps that wait for each
// other in a circle, which no correct schedule has, keep what was known of them.
std::vector<std::vector<uint32_t>> depths_of(std::span<const Schedule> schedules,
                                             std::span<const Message> messages,
                                             EdgeWeights weights);

}  // namespace banyan
