// Links between ranks as they were measured, and as figures of the cost model.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/cost/cost.h"

namespace banyan {

struct LinkSample {
  double bytes = 0;
  double us = 0;
};
struct FittedLine {
  double us = 0;  // of no bytes; not negative
  double byte_us = 0;
};
// Fits the line of Theil and Sen, which a quarter of wild samples does not move. Its slope is the
// median of the slopes between any two samples of different sizes, each counting as much as their
// sizes differ. Its height is the median of what is left of each. Nothing: fewer than two sizes, or
// no slope above 0. Samples are at most a few hundred.
std::optional<FittedLine> fit_line(std::span<const LinkSample> samples);

// Holds what was measured of messages between two ranks. "Busy": while all ranks that have a
// partner there do the same.
struct MeasuredLink {
  double latency_us = 0;       // half a round trip of a small message, one pair of a host alone
  double busy_latency_us = 0;  // at least that
  double message_us = 0;       // each of many small messages that follow each other
  double GBps = 0;             // of a rank, in each direction at the same time as in the other
  double busy_GBps = 0;        // at most that
  int pairs = 1;               // of one host's ranks that were busy
  double spread = 0;           // of the rate of single pairs: (fastest - slowest) / median

  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

// Holds the rates, in result, at which a core sums two float32 vectors.
struct MeasuredSums {
  double GBps = 0;      // where they are in its cache
  double far_GBps = 0;  // where they are in no cache

  friend bool operator==(const MeasuredSums&, const MeasuredSums&) = default;
};

// Holds the rates, in values, at which a core turns float32 into messages of a codec, and adds what
// messages say.
struct MeasuredCodec {
  CodecChoice choice{};
  double encode_GBps = 0;
  double decode_GBps = 0;

  friend bool operator==(const MeasuredCodec&, const MeasuredCodec&) = default;
};

// Holds what was measured of messages that leave a part of a level above hosts, and no part of a
// level above that one.
struct MeasuredTier {
  std::string name{};   // of the level: "leaf"
  MeasuredLink link{};  // `pairs`: of the ranks of one part, all busy

  friend bool operator==(const MeasuredTier&, const MeasuredTier&) = default;
};

// Hosts are those of one part of the level above, where ranks know one.
struct MeasuredLinks {
  std::optional<MeasuredLink> within{};   // a host
  std::optional<MeasuredLink> between{};  // hosts
  std::vector<MeasuredTier> beyond{};     // levels above hosts, the lowest first
  std::optional<MeasuredSums> sums{};     // at the end of a link
  std::vector<MeasuredCodec> codecs{};    // there, too

  friend bool operator==(const MeasuredLinks&, const MeasuredLinks&) = default;
};

// Gives the model with those figures but codecs', of source kMeasured: for ranks on several hosts.
// A host has as many NICs as the rate of its busy pairs is times that of one alone. What a rank
// waits for a core that it shares is in the latencies. Without a link between hosts the model stays
// as it is, since machine_cost.h knows more of one host than two figures say.
CostModel with_links(const CostModel& model, const MeasuredLinks& links);

}  // namespace banyan
