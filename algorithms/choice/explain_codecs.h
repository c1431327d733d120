// The part of an explanation that is about codecs. Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "algorithms/choice/explain.h"

namespace banyan {

// The site with a model that knows all explained codecs.
CallSite with_codec_costs(CallSite call);

// 0: without a model, or where how long messages are is for the data to say, as by a bound.
double predicted_us(const CallSite& call, int algorithm, const Parameters& parameters);

// `exact`: what the call would get without codecs; `choice`: what it gets. Empty: it accepts none.
// `simple` is its hierarchy, simplified().
std::vector<ExplainedCodec> explain_codecs(const CallSite& call, const Hierarchy& simple,
                                           const Choice& exact, const Choice& choice);

}  // namespace banyan
