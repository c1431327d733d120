// The random numbers of compression/philox.h are those that its authors publish: the vectors are
// philox4x32_R 10 of Random123's kat_vectors.
// SPDX-License-Identifier: Apache-2.0

#include "compression/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace banyan::philox_test {
namespace {

using testing::ElementsAre;

TEST(Philox, GivesThePublishedNumbers) {
  constexpr uint32_t kAll = 0xffff'ffff;
  EXPECT_THAT(philox({{0, 0, 0, 0}}, {0, 0}).word,
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({{kAll, kAll, kAll, kAll}}, {kAll, kAll}).word,
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {0xa4093822, 0x299f31d0}).word,
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

}  // namespace
}  // namespace banyan::philox_test
