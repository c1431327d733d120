// Prints the wall clock, for people who lay lines and figures of several places beside each other.
// Nothing decides anything by it: it may jump.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <string>

namespace banyan {

enum class Decimals { kNone, kMicroseconds };

// UTC as ISO 8601 has it: "2026-11-26T07:46:06Z", or "2026-11-26T07:46:06.000123Z".
std::string utc_text(std::chrono::microseconds since_1970, Decimals decimals);
std::string utc_now(Decimals decimals);

}  // namespace banyan
