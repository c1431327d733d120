// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/probes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "bench/perf/statistics.h"
#include "src/base/parse.h"
#include "src/tuning/tuning_file.h"

namespace banyan::tune {

namespace {

using Kind = Probe::Kind;

constexpr double kGBps = 1e-3;  // of a byte a microsecond
constexpr uint64_t kSmall = 8;
// Small messages go in bunches, since what a bunch takes is known only afterwards: one that is
// interrupted does not count for more, and where cores are busy with other things there are fewer.
struct Bunches {
  Kind kind;
  uint64_t iterations;
  int most;
};
constexpr Bunches kRoundTrips{Kind::kRoundTrip, 25, 16};
constexpr Bunches kWindows{Kind::kWindow, 10, 5};
struct Length {
  uint64_t bytes, iterations;
};
constexpr std::array<Length, 5> kLengths{
    {{16 << 10, 20}, {64 << 10, 10}, {256 << 10, 6}, {1 << 20, 4}, {4 << 20, 3}}};
constexpr size_t kNeeded = 3;               // lengths, for a line
constexpr double kLonger = 4;               // each than the one before
constexpr double kMostOfWhatIsLeft = 0.25;  // that the messages of a kind and length may take

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return perf::percentile(values, 50);
}

struct Pair {
  int rank, partner;  // the lower one first
  int at_once;        // pairs of its part that talk
};

std::vector<Pair> pairs_of(const Hierarchy& lie, const Probe& probe) {
  const std::vector<int> partners = partners_of(lie, probe);
  const int below = probe.level == 0 ? 0 : static_cast<int>(probe.level) - 1;
  std::vector<Pair> pairs;
  std::vector<int> active(static_cast<size_t>(lie.parts(below)), 0);
  const auto active_of = [&](int rank) -> int& {
    return active[static_cast<size_t>(lie.part_of(below, rank))];
  };
  for (int rank = 0; rank < static_cast<int>(partners.size()); ++rank) {
    const int partner = partners[static_cast<size_t>(rank)];
    if (partner <= rank) continue;
    pairs.push_back({rank, partner, 0});
    ++active_of(rank);
    if (probe.level > 0) ++active_of(partner);
  }
  for (Pair& pair : pairs) pair.at_once = active_of(pair.rank);
  return pairs;
}

struct Series {
  std::vector<double> latencies{}, messages{};
  std::vector<LinkSample> exchanges{};

  // Nothing: there was no time for it.
  std::optional<FittedLine> line() const {
    return latencies.empty() ? std::nullopt : fit_line(exchanges);
  }
};
using SeriesByPairs = std::map<int, Series>;  // by how many of a part there were at once

// Gives the spread of the longest messages that there was time for.
double spread_of(const std::vector<LinkSample>& exchanges) {
  double longest = 0;
  for (const LinkSample& sample : exchanges) longest = std::max(longest, sample.bytes);
  std::vector<double> times;
  for (const LinkSample& sample : exchanges)
    if (sample.bytes == longest) times.push_back(sample.us);
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const double middle = median(times);
  return middle / *least - middle / *most;
}

// Gives the worst misfit of the lengths at which the rate counts.
double misfit_of(const std::vector<LinkSample>& exchanges, const FittedLine& line) {
  constexpr double kLong = 256 << 10;
  std::map<double, std::vector<double>> by_length;
  for (const LinkSample& sample : exchanges)
    if (sample.bytes >= kLong) by_length[sample.bytes].push_back(sample.us);
  double most = 0;
  for (const auto& [bytes, times] : by_length) {
    const double expected = line.us + bytes * line.byte_us;
    most = std::max(most, std::abs(median(times) - expected) / expected);
  }
  return most;
}

class LevelProber {
 public:
  LevelProber(const Hierarchy& lie, uint32_t level, const Prober& prober, double seconds)
      : lie_(lie), level_(level), prober_(prober), end_(prober.seconds_left() - seconds) {}

  // Nothing: there was no time for it.
  Result<std::optional<MeasuredLink>> run() {
    const uint32_t rounds = rounds_of(lie_, level_);
    SeriesByPairs alone, busy;
    for (uint32_t round = 0; round < rounds; ++round) {
      BANYAN_TRY(probe({.level = level_, .busy = 0, .round = round}, alone));
      BANYAN_TRY(probe({.level = level_, .busy = 1, .round = round}, busy));
    }
    return link_of(alone[1], busy);
  }

  double misfit() const { return misfit_; }

  // Tells what was found of hosts that met.
  void tell(EdgeCosts& edges) const {
    for (const auto& [hosts, samples] : by_hosts_)
      if (const auto line = fit_line(samples))
        edges.at(hosts.first, hosts.second) = edges.at(hosts.second, hosts.first) = line->byte_us;
  }

 private:
  std::optional<MeasuredLink> link_of(const Series& alone, const SeriesByPairs& busy) {
    const auto rate = alone.line();
    const auto most = std::find_if(busy.rbegin(), busy.rend(),
                                   [](const auto& entry) { return entry.second.line(); });
    if (!rate || most == busy.rend()) return std::nullopt;
    MeasuredLink link;
    link.pairs = most->first;
    link.latency_us = median(alone.latencies);
    link.busy_latency_us = std::max(median(most->second.latencies), link.latency_us);
    link.message_us = alone.messages.empty() ? 0 : median(alone.messages);
    link.GBps = kGBps / rate->byte_us;
    link.busy_GBps = std::min(kGBps / most->second.line()->byte_us, link.GBps);
    link.spread = spread_of(alone.exchanges);
    misfit_ = std::max(misfit_of(alone.exchanges, *rate),
                       misfit_of(most->second.exchanges, *most->second.line()));
    return link;
  }

  // Gives the time that one kind of messages may take. Where one pair is alone, half of the time is
  // not its own, so that the busy ones have theirs.
  double room_us(const Probe& meeting) const {
    const double left = prober_.seconds_left() - end_;
    return kMostOfWhatIsLeft * 1e6 * (meeting.busy != 0 ? left : left - reserved_);
  }

  // The times of pairs, each of them by both ends.
  Result<std::vector<double>> times_of(const std::vector<Pair>& pairs, const Probe& probe) const {
    const Result<std::vector<double>> all = prober_.run(probe);
    BANYAN_TRY(all.status());
    std::vector<double> times;
    for (const Pair& pair : pairs)
      times.push_back(
          ((*all)[static_cast<size_t>(pair.rank)] + (*all)[static_cast<size_t>(pair.partner)]) / 2);
    return times;
  }

  // `meeting`: who talks with whom.
  Status probe(const Probe& meeting, SeriesByPairs& series) {
    reserved_ = (prober_.seconds_left() - end_) / 2;
    if (room_us(meeting) <= 0) return {};
    const std::vector<Pair> pairs = pairs_of(lie_, meeting);
    const auto about = [&](Kind kind, uint64_t bytes, uint64_t iterations) {
      Probe probe = meeting;
      probe.kind = kind;
      probe.bytes = bytes;
      probe.iterations = iterations;
      return times_of(pairs, probe);
    };
    const auto some = [&](const Bunches& bunches,
                          std::vector<double> Series::*times) -> Result<double> {
      const double end_s = prober_.seconds_left() - room_us(meeting) * 1e-6;
      std::vector<double> all;
      for (int bunch = 0; bunch < bunches.most && prober_.seconds_left() > end_s; ++bunch) {
        const auto each = about(bunches.kind, kSmall, bunches.iterations);
        BANYAN_TRY(each.status());
        for (size_t i = 0; i < pairs.size(); ++i)
          (series[pairs[i].at_once].*times).push_back((*each)[i]);
        all.insert(all.end(), each->begin(), each->end());
      }
      return all.empty() ? 0 : median(all);
    };
    const auto latency_us = some(kRoundTrips, &Series::latencies);
    BANYAN_TRY(latency_us.status());
    double shorter_us = *latency_us;
    for (size_t number = 0; number < kLengths.size() && room_us(meeting) > 0; ++number) {
      const auto [bytes, usual] = kLengths[number];
      const uint64_t iterations = fitting(usual, kLonger * shorter_us, room_us(meeting));
      if (iterations < usual && number >= kNeeded) break;
      const auto times = about(Kind::kExchange, bytes, iterations);
      BANYAN_TRY(times.status());
      for (size_t i = 0; i < pairs.size(); ++i)
        keep(meeting, pairs[i], {static_cast<double>(bytes), (*times)[i]}, series);
      shorter_us = median(*times);
    }
    // Nobody asks for it where pairs are busy.
    return meeting.busy != 0 ? Status() : some(kWindows, &Series::messages).status();
  }

  // At least one, where each takes so long.
  static uint64_t fitting(uint64_t usual, double each_us, double room_us) {
    if (each_us * static_cast<double>(usual) <= room_us) return usual;
    return room_us <= each_us ? 1 : static_cast<uint64_t>(room_us / each_us);
  }

  void keep(const Probe& meeting, const Pair& pair, const LinkSample& sample,
            SeriesByPairs& series) {
    series[pair.at_once].exchanges.push_back(sample);
    if (meeting.busy == 0 || level_ == 0) return;
    const int one = lie_.part_of(0, pair.rank), other = lie_.part_of(0, pair.partner);
    by_hosts_[std::minmax(one, other)].push_back(sample);
  }

  const Hierarchy& lie_;
  uint32_t level_;
  const Prober& prober_;
  double end_;           // seconds that are left then
  double reserved_ = 0;  // seconds of the level, for busy pairs
  double misfit_ = 0;
  std::map<std::pair<int, int>, std::vector<LinkSample>> by_hosts_;
};

// The level of a probe of two hosts.
size_t level_between(const Hierarchy& lie, int host, int other) {
  const int one = lie.members(0, host).front(), two = lie.members(0, other).front();
  int level = 1;
  while (level < lie.depth() && lie.part_of(level, one) != lie.part_of(level, two)) ++level;
  return static_cast<size_t>(level);
}

// `links`: by the levels of probes.
void fill_edges(const Hierarchy& lie, const std::vector<std::optional<MeasuredLink>>& links,
                EdgeCosts& edges) {
  for (int host = 0; host < edges.hosts; ++host)
    for (int other = 0; other < edges.hosts; ++other) {
      if (host == other || std::isfinite(edges.at(host, other))) continue;
      const size_t level = level_between(lie, host, other);
      if (level < links.size() && links[level])
        edges.at(host, other) = kGBps / links[level]->busy_GBps;
    }
}

// As reports say it.
std::string place_of(const Hierarchy& lie, uint32_t level) {
  if (level < 2) return level == 0 ? "within a host" : "between hosts";
  return fmt::format("beyond a {}", printable(lie.name(static_cast<int>(level) - 1)));
}

}  // namespace

Result<Measurement> measure_links(const Hierarchy& lie, const Prober& prober, double seconds) {
  const double end = prober.seconds_left() - seconds;
  const size_t levels = 1 + std::min(static_cast<size_t>(lie.depth()), 1 + kMostTiers);
  std::vector<uint32_t> probed;
  for (uint32_t level = 0; level < levels; ++level)
    if (rounds_of(lie, level) > 0) probed.push_back(level);
  Measurement found{.edges = EdgeCosts(lie.parts(0))};
  std::vector<std::optional<MeasuredLink>> links(levels);
  for (size_t i = 0; i < probed.size(); ++i) {
    const double left = prober.seconds_left() - end;
    LevelProber level(lie, probed[i], prober, left / static_cast<double>(probed.size() - i));
    auto link = level.run();
    BANYAN_TRY(link.status());
    links[probed[i]] = *link;
    level.tell(found.edges);
    if (*link) found.misfits.push_back({place_of(lie, probed[i]), level.misfit()});
  }
  found.links.within = links[0];
  found.links.between = links[1];
  for (size_t level = 2; level < levels; ++level)
    if (links[level])
      found.links.beyond.push_back({lie.name(static_cast<int>(level) - 1), *links[level]});
  if (lie.depth() > 1) fill_edges(lie, links, found.edges);
  return found;
}

}  // namespace banyan::tune
