// One step in words, for all the forms of print.h.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "algorithms/schedule.h"

namespace banyan {

struct StepText {
  std::string what;   // "recv_reduce 40 B from 1"
  std::string where;  // "input[80..120) -> scratch[0..40)"
};
StepText text_of(const Step& step);

}  // namespace banyan
