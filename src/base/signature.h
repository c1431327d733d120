// Ranks must agree on this before a call may write user memory. It travels in the header of every
// message of the call.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "banyan/types.h"
#include "src/base/codec.h"
#include "src/base/most_ranks.h"

namespace banyan {

// In CallSignature::algorithm: the caller asked for parameters of the algorithm, too.
inline constexpr uint8_t kWithParameters = 0x80;

// Takes 16 bytes, without padding. In calls with a list of counts, `count` is a digest of the list.
// With parameters of the algorithm it is a digest of the count, or list, and of these.
struct CallSignature {
  uint64_t count = 0;
  uint16_t root = 0;                      // 0 where the call has none
  CodecId codec = kNoCodec;               // by which it sends at the top level
  MemoryKind memory = MemoryKind::kHost;  // as who sends and receives must know it: or kDevice
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  uint8_t algorithm =
      0;  // its number from 1 where the caller asked for one, 0: left to the library

  bool operator==(const CallSignature&) const = default;
};
static_assert(sizeof(CallSignature) == 16 && kMostRanks <= 1 << 16);

// Its name; a number where it is none of them, as a peer's may be.
std::string text_of(Collective value);

// Says "count differs: rank 0 has 256, rank 3 has 255 (allreduce of float32, call 7)". It names the
// first field that differs, collective first; parameters of the algorithm come before the count.
// The algorithm of number n is algorithms[n - 1]; without its name it is a number in the text.
std::string describe_difference(const CallSignature& mine, int my_rank, const CallSignature& theirs,
                                int their_rank, uint32_t call_number,
                                std::span<const std::string_view> algorithms = {});

}  // namespace banyan
