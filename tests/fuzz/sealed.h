// Makes the checksum of a fuzzed message right, so that what lies behind that check is seen, too.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compression/crc32c.h"

namespace banyan {

// It lies at that place, and counts as 0 in itself.
template <typename Bytes>
Bytes sealed(Bytes message, size_t checksum_at) {
  std::memset(message.data() + checksum_at, 0, sizeof(uint32_t));
  const uint32_t sum = crc32c(message);
  std::memcpy(message.data() + checksum_at, &sum, sizeof sum);
  return message;
}

}  // namespace banyan
