// What was found, as a tuning file and for people.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "algorithms/measured_links.h"
#include "bench/tune/search.h"
#include "src/tuning_file.h"

namespace banyan::tune {

// Neighbouring sizes with one answer make one rule, whose ends lie half way to the next sizes (as
// ratios). The last rule is open where the largest size was measured. Reductions are for float32,
// which was measured: the sums of other types move other numbers of bytes.
std::vector<TuningRule> rules_of(const Subject& subject, int ranks, int nodes);

// A line for each level that was measured.
std::string report_of(const MeasuredLinks& links);

// A line for each size at which the default choice was beaten, and a summary.
std::string report_of(const std::vector<Subject>& subjects);

}  // namespace banyan::tune
