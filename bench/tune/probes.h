// What messages between the ranks of a job cost: probes of pairs, alone and all at once, on one
// host and between any two hosts.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "algorithms/measured_links.h"
#include "algorithms/ring_order.h"
#include "banyan/status.h"

namespace banyan::tune {

// What every rank with a partner does with it, so many times.
struct Probe {
  enum class Kind : uint32_t {
    kRoundTrip,  // a message there, and one back
    kWindow,     // perf::kWindow messages from the lower rank, and an answer
    kExchange,   // a message in each direction at the same time
  };
  enum class Level : uint32_t { kWithin, kBetween };

  Kind kind = Kind::kRoundTrip;
  Level level = Level::kWithin;
  uint32_t busy = 0;   // 0: one pair of each host; 1: all ranks that find a partner
  uint32_t round = 0;  // less than rounds_of()
  uint64_t bytes = 0;
  uint64_t iterations = 1;
};

// `hosts`: for each rank, the lowest rank of its host. In a round every host has another one for a
// partner, or none (a tournament of all against all, by turning the table), and its i-th rank that
// one's i-th; within a host ranks are partners in the order of their numbers. -1: no partner.
std::vector<int> partners_of(const std::vector<int>& hosts, const Probe& probe);
// Between hosts enough that every two meet, but no more than 16; within hosts 1. 0: nobody has a
// partner at that level.
uint32_t rounds_of(const std::vector<int>& hosts, Probe::Level level);

struct Prober {
  // For each rank, the microseconds of one message (kExchange: of one in each direction); those of
  // ranks without a partner mean nothing.
  std::function<Result<std::vector<double>>(const Probe&)> run;
  std::function<double()> seconds_left;
};

struct Measurement {
  MeasuredLinks links{};
  // Of hosts in the order of their lowest ranks: microseconds of a byte between any two that met,
  // while all pairs were busy, so that a link that several of them share shows.
  EdgeCosts edges{0};
};

// Within so many seconds more or less; what they do not suffice for is not known. Bandwidths are
// slopes over messages from 16 KiB to 4 MiB, times are medians over rounds and pairs.
Result<Measurement> measure_links(const std::vector<int>& hosts, const Prober& prober,
                                  double seconds);

}  // namespace banyan::tune
