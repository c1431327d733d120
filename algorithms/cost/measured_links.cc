// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/measured_links.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace banyan {
namespace {

constexpr double kMicrosecondsPerGB = 1e-3;  // of a byte, at 1 GB/s

struct Weighed {
  double value = 0;
  double weight = 0;
};

// The least value at or below which half the weight lies.
double weighted_median(std::vector<Weighed> all) {
  std::sort(all.begin(), all.end(),
            [](const Weighed& a, const Weighed& b) { return a.value < b.value; });
  double half = 0;
  for (const Weighed& each : all) half += each.weight / 2;
  double below = 0;
  for (const Weighed& each : all) {
    below += each.weight;
    if (below >= half) return each.value;
  }
  return all.empty() ? 0 : all.back().value;
}

Figure measured(double value) {
  return {value, Source::kMeasured};
}

// A message takes a core its overhead at each end, which was part of the round trip.
double alpha_of(const MeasuredLink& link) {
  return std::max(link.busy_latency_us - 2 * link.message_us, 0.0);
}

}  // namespace

std::optional<FittedLine> fit_line(std::span<const LinkSample> samples) {
  std::vector<Weighed> slopes;
  for (size_t a = 0; a < samples.size(); ++a)
    for (size_t b = a + 1; b < samples.size(); ++b) {
      const double bytes = samples[b].bytes - samples[a].bytes;
      if (bytes != 0) slopes.push_back({(samples[b].us - samples[a].us) / bytes, std::abs(bytes)});
    }
  const double slope = weighted_median(std::move(slopes));
  if (!(slope > 0) || !std::isfinite(slope)) return std::nullopt;
  std::vector<Weighed> rests;
  rests.reserve(samples.size());
  for (const LinkSample& sample : samples) rests.push_back({sample.us - slope * sample.bytes, 1});
  return FittedLine{std::max(weighted_median(std::move(rests)), 0.0), slope};
}

CostModel with_links(const CostModel& model, const MeasuredLinks& links) {
  if (!links.between) return model;
  CostModel known = model;
  const MeasuredLink& between = *links.between;
  const double all = between.busy_GBps * between.pairs;
  known.nics = std::clamp(std::round(all / between.GBps), 1.0, static_cast<double>(between.pairs));
  known.wire_byte = measured(kMicrosecondsPerGB * known.nics / all);
  known.between = {.alpha = measured(alpha_of(between)),
                   .overhead = measured(between.message_us),
                   .send_byte = measured(0),
                   .recv_byte = measured(0),
                   .long_overhead = measured(0),
                   .long_byte = measured(0),
                   .far_byte = measured(0)};
  for (const MeasuredTier& tier : links.beyond)
    known.tiers.push_back({tier.name, measured(alpha_of(tier.link)),
                           measured(kMicrosecondsPerGB / (tier.link.busy_GBps * tier.link.pairs))});
  known.turn = measured(0);
  if (links.sums) {
    const double sum = kMicrosecondsPerGB / links.sums->GBps;
    known.reduce_byte = measured(sum);
    known.reduce_far_byte =
        measured(std::max(kMicrosecondsPerGB / links.sums->far_GBps - sum, 0.0));
  }
  if (!links.within) return known;
  // One core copies in, another out, and each does both at once.
  const double byte = kMicrosecondsPerGB / links.within->GBps;
  known.within = {.alpha = measured(alpha_of(*links.within)),
                  .overhead = measured(links.within->message_us),
                  .send_byte = measured(byte / 2),
                  .recv_byte = measured(byte / 2),
                  .long_overhead = measured(0),
                  .long_byte = measured(byte),
                  .far_byte = measured(0)};
  return known;
}

}  // namespace banyan
