// How often tests that repeat themselves do so.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdlib>

#include "tests/support/sanitizers.h"

namespace banyan::test {

// A few times are enough: under a sanitizer, and where BANYAN_TEST_BRIEF says so, as it does where
// each buffer is moved to a GPU of the stand-in. There a call takes many times as long, and the
// same test repeats itself without.
inline bool is_brief() {
  const char* asked =
      std::getenv("BANYAN_TEST_BRIEF");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return kSanitized || asked != nullptr;
}

}  // namespace banyan::test
