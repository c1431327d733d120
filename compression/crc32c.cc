// SPDX-License-Identifier: Apache-2.0

#include "compression/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace banyan {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

// Row r has what a byte becomes with r bytes of zeros behind it, so that a word takes one step.
constexpr auto kRows = [] {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // the lowest bit is that of the highest power
  std::array<std::array<uint32_t, 256>, kWord> rows{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    rows[0][byte] = crc;
  }
  for (size_t row = 1; row < kWord; ++row)
    for (size_t byte = 0; byte < 256; ++byte)
      rows[row][byte] = rows[row - 1][byte] >> 8 ^ rows[0][rows[row - 1][byte] & 0xff];
  return rows;
}();

uint32_t after_byte(uint32_t crc, uint8_t byte) {
  return crc >> 8 ^ kRows[0][(crc ^ byte) & 0xff];
}

uint32_t after_word(uint32_t crc, uint64_t word) {
  word ^= crc;
  uint32_t result = 0;
  for (size_t i = 0; i < kWord; ++i) result ^= kRows[kWord - 1 - i][word >> 8 * i & 0xff];
  return result;
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] uint32_t by_instruction(std::span<const std::byte> bytes,
                                                  uint32_t before) {
  uint32_t crc = ~before;
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kWord);
    crc = static_cast<uint32_t>(_mm_crc32_u64(crc, word));
  }
  for (const std::byte byte : bytes) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(byte));
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return by_instruction(bytes, before);
#endif
  return crc32c_portable(bytes, before);
}

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kWord);
    crc = after_word(crc, word);
  }
  for (const std::byte byte : bytes) crc = after_byte(crc, static_cast<uint8_t>(byte));
  return ~crc;
}

}  // namespace banyan
