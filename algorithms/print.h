// A schedule as something a person or a program can read.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "algorithms/schedule.h"

namespace banyan {

// Prints one line a step: "rank 2  s3: recv_reduce 40 B from 1, input[80..120) -> scratch[0..40)
// after s1".
std::string to_text(const Schedule& schedule, int rank);
// The ranks' schedules side by side, edges for dependencies and, dashed, for messages.
std::string to_dot(std::span<const Schedule> schedules, std::span<const int> ranks);
std::string to_svg(std::span<const Schedule> schedules, std::span<const int> ranks,
                   std::string_view title);

}  // namespace banyan
