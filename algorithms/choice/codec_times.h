// What sums took by each codec, and exact, where that was measured.
//
//   const std::optional<double> us = time_of(bytes, lengths);
//
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/codec.h"

namespace banyan {

// A call of so many bytes took so long.
struct TimedLength {
  uint64_t bytes = 0;
  double us = 0;
};
// Between two of them a call is on their chord. One that is shorter than all takes what the
// shortest did, and one that is longer takes as much more as it is longer. Nothing: there are none.
std::optional<double> time_of(uint64_t bytes, std::span<const TimedLength> lengths);

// An allreduce of float32 by a codec: between hosts, where there are several, and exact inside
// them.
struct CodecTime {
  CodecChoice choice{};  // exact, too
  uint64_t bytes = 0;
  double us = 0;  // median

  friend bool operator==(const CodecTime&, const CodecTime&) = default;
};
std::optional<double> time_of(uint64_t bytes, const CodecChoice& choice,
                              std::span<const CodecTime> times);

}  // namespace banyan
