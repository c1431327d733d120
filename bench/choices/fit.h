// The figures of a model whose choices lose least on what was measured.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/cost/cost.h"
#include "bench/choices/rows.h"

namespace banyan::choices {

// Goes by random steps from `model`, of which those are kept that make the choice better. It prints
// the figures, each with its name.
std::string fit(const std::vector<Point>& points, CostModel model, int steps, uint64_t seed);

}  // namespace banyan::choices
