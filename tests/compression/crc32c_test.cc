// The checksum of messages against the standard's figures, by any processor, in any parts.
// SPDX-License-Identifier: Apache-2.0

#include "compression/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::crc32c_test {
namespace {

TEST(Crc32c, IsThatOfTheStandard) {
  const auto of = [](std::string_view text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of("123456789"), 0xE3069283U);
  EXPECT_EQ(of(""), 0U);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62A8AB43U);
  std::string rising;
  for (char c = 0; c < 32; c++) rising += c;
  EXPECT_EQ(of(rising), 0x46DD794EU);
}

TEST(Crc32c, IsTheSameByAnyProcessorAndInAnyParts) {
  std::mt19937_64 random(15);
  std::vector<std::byte> bytes(1000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t first = 0; first < 9; first++) {
    for (size_t size = 0; size < 300; size++) {
      const auto part = std::span(bytes).subspan(first, size);
      const uint32_t whole = crc32c_portable(part);
      ASSERT_EQ(crc32c(part), whole) << first << ' ' << size;
      ASSERT_EQ(crc32c(part.subspan(size / 3), crc32c(part.first(size / 3))), whole);
      ASSERT_EQ(crc32c_portable(part.subspan(size / 3), crc32c_portable(part.first(size / 3))),
                whole);
    }
  }
}

}  // namespace
}  // namespace banyan::crc32c_test
