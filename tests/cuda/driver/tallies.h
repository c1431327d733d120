// How often each function of the stand-in was called, and which call of it is to fail.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace banyan::standin {

// Counts a call. kSuccess, or the error that a test wants from it.
int count_call(std::string_view function);
// "_v2" and the like make no difference.
void fail_call(std::string_view function, int after, int error);
long calls_of(std::string_view function);

}  // namespace banyan::standin
