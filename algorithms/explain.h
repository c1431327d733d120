// Why one algorithm and not another: all of them with what they would take, beside the least that
// any could.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/cost.h"
#include "algorithms/select.h"

namespace banyan {

struct ExplainedAlgorithm {
  int algorithm = 0;  // index into algorithms()
  bool excluded = false;
  std::string why{};                    // of exclusion; else what there is to say, or nothing
  double predicted_us = 0;              // 0 where excluded
  std::optional<double> measured_us{};  // of a tuning file
  Parameters parameters{};              // of what a call gets
};

struct Explanation {
  int chosen = 0;  // the fastest of those that are not excluded, as predicted; the first of equals
  double bound_us = 0;
  double percent_of_bound = 0;                 // 100 bound_us / time of the chosen
  std::vector<ExplainedAlgorithm> algorithms;  // fastest first, those excluded at the end
};

// Requires two ranks and a call that algorithms are chosen for: not kSend or kRecv. Rules exclude
// as for choose(); a rule that names algorithms excludes all others. `measured`: what calls there
// choose by. Pure.
Explanation explain(const Problem& problem, int ranks, const CostModel& model, Medium medium,
                    const Rules& rules, const Hierarchy* hierarchy = nullptr,
                    const MeasuredNetwork* measured = nullptr);

}  // namespace banyan
