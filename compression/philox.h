// Random numbers that are computed from where they are used, and so are the same on every machine
// and in any order: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011, section 4.3.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace banyan {
namespace {

struct PhiloxCounter {
  uint32_t word[4];
};

struct PhiloxKey {
  uint32_t low, high;
};

struct Philox {
  static constexpr int kRounds = 10;
  static constexpr uint32_t kEvenFactor = 0xD2511F53;
  static constexpr uint32_t kOddFactor = 0xCD9E8D57;
  static constexpr PhiloxKey kKeyStep = {0x9E3779B9, 0xBB67AE85};
};

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < Philox::kRounds; ++round) {
    const uint64_t even = uint64_t{Philox::kEvenFactor} * counter.word[0];
    const uint64_t odd = uint64_t{Philox::kOddFactor} * counter.word[2];
    counter = {{static_cast<uint32_t>(odd >> 32) ^ counter.word[1] ^ key.low,
                static_cast<uint32_t>(odd),
                static_cast<uint32_t>(even >> 32) ^ counter.word[3] ^ key.high,
                static_cast<uint32_t>(even)}};
    key.low += Philox::kKeyStep.low;
    key.high += Philox::kKeyStep.high;
  }
  return counter;
}

}  // namespace
}  // namespace banyan
