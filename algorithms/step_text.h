// One step in words, for all the forms of print.h, and the length of its message.
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
// Gives the bytes of the message that a step sends or receives, the most it may have where it is in
// a wire slot; 0 for a local step.
uint64_t message_bytes(const Step& step);

}  // namespace banyan
