// What banyan_tune tries for a call: each algorithm that fits, and for buffers on GPUs also what
// NCCL moves inside hosts. A candidate has the number of its algorithm, or one behind the last.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>
#include <vector>

#include "bench/perf/home.h"
#include "bench/perf/pattern.h"

namespace banyan::tune {

// Those that fit. `levels`: ranks lie in levels, so that what goes by them is not what flat ones
// are. `home`: where the buffers are.
std::vector<int> candidates_for(perf::Pattern pattern, bool levels, perf::Home home);

// As rules name it: "ring", "hierarchical(intra=nccl)".
std::string_view candidate_text(int candidate);
// An algorithm's name.
std::string_view candidate_algorithm(int candidate);
bool goes_by_nccl(int candidate);

}  // namespace banyan::tune
