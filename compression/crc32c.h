// The checksum of messages: CRC-32C (Castagnoli), as RFC 3720, section 12.1, has it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace banyan {

// That of two runs of bytes, one behind the other: crc32c(second, crc32c(first)).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
// The same, by no more than any processor has.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace banyan
