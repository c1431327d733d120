// A rule or a call says by these how its algorithm goes about it, as in ring(seg=1M): a small
// value. Which algorithm takes which of these is in its row in algorithms.cc.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "banyan/status.h"
#include "src/base/codec.h"

namespace banyan {

enum class ParameterKey : uint8_t { kSegment, kIntra, kInter, kRails, kDimensions };
inline constexpr int kParameterKeyCount = 5;

// Says what hierarchical does in a team: a reduce-scatter, an allgather. kOwn leaves it to the
// algorithm. kNccl, which is for hosts: NCCL moves what is on GPUs, where it can (peers.h), and
// else kDirect.
enum class Phase : uint8_t { kOwn, kCirculant, kRing, kPairwise, kDirect, kNccl };
inline constexpr int kPhaseCount = 6;

inline constexpr uint64_t kMostSegment = uint64_t{1} << 30;
inline constexpr int kMostDimension = 65535;
inline constexpr int kMostDimensions = 3;
inline constexpr int kMostRails = 65535;

struct Parameters {
  uint32_t segment = 0;  // bytes; 0: the algorithm's own length
  Phase intra = Phase::kOwn;
  Phase inter = Phase::kOwn;
  uint16_t rails = 0;  // ranks of a host that exchange with other hosts; 0: all of them
  std::array<uint16_t, kMostDimensions> dimensions{};  // the first are set, or none
  // Codecs by which sums travel: inside the parts of lower levels, and at the top or only level.
  // Only who makes a call may set them. No rule and no table does, so nothing lossy is chosen by
  // what it takes.
  CodecChoice intra_codec{};
  CodecChoice inter_codec{};

  bool operator==(const Parameters&) const = default;
  bool encodes() const { return !intra_codec.is_exact() || !inter_codec.is_exact(); }
};

// "seg", "intra", ...; and with its values: "seg=SIZE".
std::string_view name_of(ParameterKey key);
std::string_view form_of(ParameterKey key);

// The parameters with that one set. kInvalidArgument: the message is what would be right, alone.
Result<Parameters> with_parameter(Parameters parameters, ParameterKey key, std::string_view value);

// "seg=1M,intra=ring", as rules have it; empty where nothing is set.
std::string text_of(const Parameters& parameters);

// Dimensions, where they are set, have room for exactly so many ranks.
bool fit_ranks(const Parameters& parameters, int ranks);

}  // namespace banyan
