// A checksum for what was cut or altered by accident.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace banyan::example {

// FNV-1a, 64 bits.
inline uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) sum = (sum ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace banyan::example
