// Explains why one algorithm and not another: all of them with what they would take, beside the
// least that any could.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/choice/select.h"
#include "algorithms/cost/cost.h"

namespace banyan {

struct ExplainedAlgorithm {
  int algorithm = 0;  // index into algorithms()
  bool excluded = false;
  std::string why{};                    // of exclusion; else what there is to say, or nothing
  double predicted_us = 0;              // 0 where it is no algorithm for the call
  std::optional<double> measured_us{};  // of a tuning file
  Parameters parameters{};              // of what a call gets
};

struct Explanation {
  int chosen = 0;   // what a call gets
  int fastest = 0;  // as predicted, of those that rules exclude, too
  double fastest_us = 0;
  Parameters fastest_parameters{};  // with the best length of segments, where that is another
  Bound bound{};
  double percent_of_bound = 0;  // 100 bound.us / time of the chosen
  // The chosen, then by time; those excluded at the end.
  std::vector<ExplainedAlgorithm> algorithms{};
};

// Explains a call. Requires two ranks and a call that algorithms are chosen for: not kSend or
// kRecv. Pure. `measured`: what calls there choose by.
//
//   what decides                  excludes
//   a rule that names algorithms  all others
//   any other rule                as for choose()
//   anything else                 those that are predicted to be faster than what it has
Explanation explain(const Problem& problem, int ranks, const CostModel& model, Medium medium,
                    const Rules& rules, const Hierarchy* hierarchy = nullptr,
                    const MeasuredNetwork* measured = nullptr);

}  // namespace banyan
