// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/probes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "bench/perf/statistics.h"

namespace banyan::tune {

namespace {

using Kind = Probe::Kind;
using Level = Probe::Level;

constexpr uint32_t kMostRounds = 16;
constexpr uint64_t kSmall = 8;
constexpr uint64_t kRoundTrips = 400;
constexpr uint64_t kWindows = 50;
struct Length {
  uint64_t bytes, iterations;
};
constexpr std::array<Length, 5> kLengths{
    {{16 << 10, 20}, {64 << 10, 10}, {256 << 10, 6}, {1 << 20, 4}, {4 << 20, 3}}};
constexpr double kLonger = 4;               // each than the one before
constexpr double kMostOfWhatIsLeft = 0.25;  // that a length may take

// Ranks in the order of their numbers, hosts in that of their lowest.
std::vector<std::vector<int>> members_of(const std::vector<int>& hosts) {
  std::map<int, std::vector<int>> members;
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    members[hosts[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> all;
  for (auto& [lowest, ranks] : members) all.push_back(std::move(ranks));
  return all;
}

void join(std::vector<int>& partners, int a, int b) {
  partners[static_cast<size_t>(a)] = b;
  partners[static_cast<size_t>(b)] = a;
}

// Of an even number of seats: the last one stays, the others turn around it.
size_t seat_across(size_t seat, size_t round, size_t seats) {
  const size_t turning = seats - 1;
  if (seat == turning) return round % turning;
  if (seat == round % turning) return turning;
  return (2 * (round % turning) + turning - seat) % turning;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return perf::percentile(values, 50);
}

class LevelProber {
 public:
  LevelProber(const std::vector<int>& hosts, Level level, const Prober& prober, double end)
      : hosts_(hosts), level_(level), prober_(prober), end_(end) {}

  // Nothing: there was no time for it.
  Result<std::optional<MeasuredLink>> run() {
    const uint32_t rounds = rounds_of(hosts_, level_);
    MeasuredLink link;
    link.pairs = busiest();
    std::array<Series, 2> series;
    for (uint32_t round = 0; round < rounds; ++round)
      for (const uint32_t busy : {0U, 1U}) BANYAN_TRY(probe(round, busy, series[busy]));
    const auto& [alone, busy] = series;
    const auto rate = fit_line(alone.exchanges);
    const auto busy_rate = fit_line(busy.exchanges);
    if (!rate || !busy_rate || alone.latencies.empty() || busy.latencies.empty())
      return std::optional<MeasuredLink>();
    link.latency_us = median(alone.latencies);
    link.busy_latency_us = std::max(median(busy.latencies), link.latency_us);
    link.message_us = alone.messages.empty() ? 0 : median(alone.messages);
    link.GBps = kGBps / rate->byte_us;
    link.busy_GBps = std::min(kGBps / busy_rate->byte_us, link.GBps);
    link.spread = spread_of(alone.exchanges);
    return std::optional(link);
  }

  // Of those that were probed.
  EdgeCosts edges() const {
    std::map<int, int> index;  // of a host by its lowest rank
    for (const int lowest : hosts_) index.emplace(lowest, 0);
    int next = 0;
    for (auto& [lowest, number] : index) number = next++;
    EdgeCosts costs(next);
    for (const auto& [hosts, samples] : by_hosts_)
      if (const auto line = fit_line(samples)) {
        const int one = index[hosts.first], other = index[hosts.second];
        costs.at(one, other) = costs.at(other, one) = line->byte_us;
      }
    return costs;
  }

 private:
  static constexpr double kGBps = 1e-3;  // of a byte a microsecond

  struct Series {
    std::vector<double> latencies{}, messages{};
    std::vector<LinkSample> exchanges{};
  };

  bool has_time() const { return prober_.seconds_left() > end_; }

  // By their lower ranks.
  std::vector<std::pair<int, int>> pairs_of(const Probe& probe) const {
    const std::vector<int> partners = partners_of(hosts_, probe);
    std::vector<std::pair<int, int>> pairs;
    for (int rank = 0; rank < static_cast<int>(partners.size()); ++rank)
      if (const int partner = partners[static_cast<size_t>(rank)]; partner > rank)
        pairs.emplace_back(rank, partner);
    return pairs;
  }

  // The times of pairs, each of them by both ends.
  Result<std::vector<double>> times_of(const Probe& probe) const {
    const Result<std::vector<double>> all = prober_.run(probe);
    BANYAN_TRY(all.status());
    std::vector<double> times;
    for (const auto& [rank, partner] : pairs_of(probe))
      times.push_back(((*all)[static_cast<size_t>(rank)] + (*all)[static_cast<size_t>(partner)]) /
                      2);
    return times;
  }

  // What busy pairs took, by their hosts.
  void keep(uint32_t round, double bytes, const std::vector<double>& times) {
    const auto pairs = pairs_of({.level = level_, .busy = 1, .round = round});
    for (size_t pair = 0; pair < pairs.size(); ++pair) {
      const int one = hosts_[static_cast<size_t>(pairs[pair].first)];
      const int other = hosts_[static_cast<size_t>(pairs[pair].second)];
      by_hosts_[std::minmax(one, other)].push_back({bytes, times[pair]});
    }
  }

  Status probe(uint32_t round, uint32_t busy, Series& series) {
    const auto about = [&](Kind kind, uint64_t bytes, uint64_t iterations) {
      return times_of({.kind = kind,
                       .level = level_,
                       .busy = busy,
                       .round = round,
                       .bytes = bytes,
                       .iterations = iterations});
    };
    if (!has_time()) return {};
    const auto latencies = about(Kind::kRoundTrip, kSmall, kRoundTrips);
    BANYAN_TRY(latencies.status());
    series.latencies.insert(series.latencies.end(), latencies->begin(), latencies->end());
    if (has_time()) {
      const auto messages = about(Kind::kWindow, kSmall, kWindows);
      BANYAN_TRY(messages.status());
      series.messages.insert(series.messages.end(), messages->begin(), messages->end());
    }
    double shorter_us = 0;
    for (const Length& length : kLengths) {
      const double takes_s = kLonger * shorter_us * static_cast<double>(length.iterations) * 1e-6;
      if (!has_time() || takes_s > kMostOfWhatIsLeft * (prober_.seconds_left() - end_)) break;
      const auto times = about(Kind::kExchange, length.bytes, length.iterations);
      BANYAN_TRY(times.status());
      for (const double us : *times)
        series.exchanges.push_back({static_cast<double>(length.bytes), us});
      if (busy != 0) keep(round, static_cast<double>(length.bytes), *times);
      shorter_us = median(*times);
    }
    return {};
  }

  // Of the longest messages that there was time for.
  static double spread_of(const std::vector<LinkSample>& exchanges) {
    double longest = 0;
    for (const LinkSample& sample : exchanges) longest = std::max(longest, sample.bytes);
    std::vector<double> times;
    for (const LinkSample& sample : exchanges)
      if (sample.bytes == longest) times.push_back(sample.us);
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    const double middle = median(times);
    return middle / *least - middle / *most;
  }

  // The most pairs that a host has at a time.
  int busiest() const {
    const std::vector<int> partners = partners_of(hosts_, {.level = level_, .busy = 1});
    std::map<int, int> active;
    for (size_t rank = 0; rank < partners.size(); ++rank)
      if (partners[rank] >= 0) ++active[hosts_[rank]];
    int most = 1;
    for (const auto& [host, ranks] : active)
      most = std::max(most, level_ == Level::kWithin ? ranks / 2 : ranks);
    return most;
  }

  const std::vector<int>& hosts_;
  Level level_;
  const Prober& prober_;
  double end_;  // seconds that are left then
  std::map<std::pair<int, int>, std::vector<LinkSample>> by_hosts_;
};

}  // namespace

std::vector<int> partners_of(const std::vector<int>& hosts, const Probe& probe) {
  std::vector<int> partners(hosts.size(), -1);
  const std::vector<std::vector<int>> members = members_of(hosts);
  if (probe.level == Level::kWithin) {
    for (const std::vector<int>& own : members) {
      const size_t most = probe.busy != 0 ? own.size() : std::min<size_t>(own.size(), 2);
      for (size_t i = 0; i + 1 < most; i += 2) join(partners, own[i], own[i + 1]);
    }
    return partners;
  }
  if (members.size() < 2) return partners;
  const size_t seats = members.size() + members.size() % 2;
  for (size_t host = 0; host < members.size(); ++host) {
    const size_t other = seat_across(host, probe.round, seats);
    if (other <= host || other >= members.size()) continue;
    size_t pairs = std::min(members[host].size(), members[other].size());
    if (probe.busy == 0) pairs = 1;
    for (size_t i = 0; i < pairs; ++i) join(partners, members[host][i], members[other][i]);
  }
  return partners;
}

uint32_t rounds_of(const std::vector<int>& hosts, Level level) {
  const std::vector<std::vector<int>> members = members_of(hosts);
  const auto count = static_cast<uint32_t>(members.size());
  if (level == Level::kBetween) return count < 2 ? 0 : std::min(count + count % 2 - 1, kMostRounds);
  const bool any = std::any_of(members.begin(), members.end(),
                               [](const std::vector<int>& own) { return own.size() > 1; });
  return any ? 1 : 0;
}

Result<Measurement> measure_links(const std::vector<int>& hosts, const Prober& prober,
                                  double seconds) {
  const double end = prober.seconds_left() - seconds;
  Measurement found;
  LevelProber network(hosts, Level::kBetween, prober, end);
  auto between = network.run();
  BANYAN_TRY(between.status());
  found.links.between = *between;
  found.edges = network.edges();
  auto within = LevelProber(hosts, Level::kWithin, prober, end).run();
  BANYAN_TRY(within.status());
  found.links.within = *within;
  return found;
}

}  // namespace banyan::tune
