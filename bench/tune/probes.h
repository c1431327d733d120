// Finds what messages between the ranks of a job cost: probes of pairs, alone and all at once, on
// one host, between hosts, and beyond each level that is known above hosts.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithms/cost/measured_links.h"
#include "algorithms/ring_order.h"
#include "banyan/status.h"
#include "bench/tune/partners.h"
#include "topology/hierarchy.h"

namespace banyan::tune {

struct Prober {
  // Gives for each rank the microseconds of one message (kExchange: of one in each direction);
  // those of ranks without a partner mean nothing.
  std::function<Result<std::vector<double>>(const Probe&)> run;
  std::function<double()> seconds_left;
};

// Tells how far what long messages took is from the line that the rate is of: for the worst length,
// the distance of the median by the line.
struct Misfit {
  std::string where;  // "between hosts"
  double share = 0;
};

struct Measurement {
  MeasuredLinks links{};
  std::vector<Misfit> misfits{};  // one of each link
  // Has the microseconds of a byte between any two hosts that met, in the order of their lowest
  // ranks, while all pairs were busy, so that a link that several of them share shows. Where levels
  // above hosts are known, hosts that did not meet have what their level has.
  EdgeCosts edges{0};
};

// Measures within so many seconds more or less; what they do not suffice for is not known. The
// lowest level comes first. Each level may take an equal part of what is left then, so that what a
// fast one leaves goes to the slower ones above it. Pairs alone leave half of it to busy ones.
//
// Bandwidths are slopes over messages from 16 KiB to 4 MiB, times are medians over rounds and
// pairs. Busy ones are those of parts that had most pairs. `lie`: see partners.h; at most
// kMostTiers levels above hosts are probed.
Result<Measurement> measure_links(const Hierarchy& lie, const Prober& prober, double seconds);

}  // namespace banyan::tune
