// Addresses that no object has, for what must refuse them unread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace banyan::test {

inline float* address(uintptr_t number) {
  // Made of a number on purpose: nothing is read or written there.
  return reinterpret_cast<float*>(number);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace banyan::test
