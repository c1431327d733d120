// The text of an explanation, for people: the one that banyan_explain gives and banyan_info prints.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "algorithms/choice/explain.h"

namespace banyan {

// What the bound is by: "edge of a gpu, hardware".
std::string text_of(const Bound& bound);

// Begins with a title, then come lines of `known`, what else is known of the machine ("# ", each
// ended), then a line for each algorithm, one for each codec where the call accepts some, and last
// how near to the bound a call gets. A call that needs no algorithm has one line. `explanation` is
// of that call.
std::string show_explanation(const CallSite& call, const Explanation& explanation,
                             const std::string& known = {});

}  // namespace banyan
