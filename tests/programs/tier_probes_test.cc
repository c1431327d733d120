// Levels above hosts are probed on fabrics made up here: who talks with whom, and what is made of
// the times.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/tune/probes.h"
#include "bench/tune/result.h"

namespace banyan::tune::tier_probes_test {
namespace {

using Parts = std::vector<std::vector<int>>;

// Makes a fabric of `leaves`, each with the ranks of its hosts, and of `pods`, each with its
// leaves, if there are any. `dealt`: the ranks are numbered so that those of a host are far from
// each other.
Hierarchy fabric(const Parts& leaves, const Parts& pods = {}, bool dealt = false) {
  Parts hosts, ranks_of_leaf, ranks_of_pod;
  int places = 0;
  for (const auto& leaf : leaves) {
    ranks_of_leaf.emplace_back();
    for (const int ranks : leaf) {
      hosts.emplace_back();
      for (int i = 0; i < ranks; ++i) {
        hosts.back().push_back(places);
        ranks_of_leaf.back().push_back(places++);
      }
    }
  }
  for (const auto& pod : pods) {
    auto& ranks = ranks_of_pod.emplace_back();
    for (const int leaf : pod) {
      const auto& own = ranks_of_leaf[static_cast<size_t>(leaf)];
      ranks.insert(ranks.end(), own.begin(), own.end());
    }
  }
  std::vector<int> number;  // even places first
  for (int place = 0; place < places; ++place)
    number.push_back(place % 2 == 0 ? place / 2 : (places + 1) / 2 + place / 2);
  if (dealt)
    for (Parts* parts : {&hosts, &ranks_of_leaf, &ranks_of_pod})
      for (auto& part : *parts)
        for (int& place : part) place = number[static_cast<size_t>(place)];
  std::vector<Hierarchy::Level> levels{{"host", hosts}, {"leaf", ranks_of_leaf}};
  if (!pods.empty()) levels.push_back({"pod", ranks_of_pod});
  const auto made = Hierarchy::make(places, levels);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

const std::vector<Hierarchy>& fabrics() {
  static const std::vector<Hierarchy> all{fabric({{2, 2, 2}, {2, 2, 2}}),
                                          fabric({{2, 2, 2}, {2, 2, 2}}, {}, true),
                                          fabric({{1, 1}, {1, 1}}),
                                          fabric({{2}, {2, 1, 3}, {1, 1}}),
                                          fabric({{2}, {2, 1, 3}, {1, 1}}, {}, true),
                                          fabric({{1}, {1, 1}}),
                                          fabric({{1, 1}, {1, 1}, {2, 2}, {3}}, {{0, 2}, {1, 3}}),
                                          fabric({{2, 2}, {2}, {2}, {1, 1}}, {{0, 1}, {2}, {3}}),
                                          fabric({{1, 1}, {1}}, {{0}, {1}}, true)};
  return all;
}

// `level` of a probe: they share a part of it, and none of the level below.
bool is_of_level(const Hierarchy& lie, uint32_t level, int rank, int partner) {
  const auto share = [&](uint32_t at) {
    const auto wanted = static_cast<int>(at);
    return wanted == lie.depth() || lie.part_of(wanted, rank) == lie.part_of(wanted, partner);
  };
  return share(level) && (level == 0 || !share(level - 1));
}

TEST(TierPartners, AgreeWithEachOtherAndKeepToTheirLevel) {
  for (const Hierarchy& lie : fabrics())
    for (uint32_t level = 0; level <= static_cast<uint32_t>(lie.depth()); ++level)
      for (const uint32_t busy : {0U, 1U})
        for (uint32_t round = 0; round < rounds_of(lie, level); ++round) {
          const auto partners = partners_of(lie, {.level = level, .busy = busy, .round = round});
          ASSERT_EQ(static_cast<int>(partners.size()), lie.places());
          std::map<int, int> active;
          const int below = std::max(static_cast<int>(level) - 1, 0);
          for (int rank = 0; rank < lie.places(); ++rank) {
            const int partner = partners[static_cast<size_t>(rank)];
            if (partner < 0) continue;
            ASSERT_LT(partner, lie.places());
            EXPECT_EQ(partners[static_cast<size_t>(partner)], rank);
            EXPECT_TRUE(is_of_level(lie, level, rank, partner));
            ++active[lie.part_of(below, rank)];
          }
          EXPECT_FALSE(active.empty());
          for (const auto& [part, ranks] : active)
            if (busy == 0) {
              EXPECT_EQ(ranks, level == 0 ? 2 : 1);
            }
        }
}

TEST(TierPartners, LetHostsOfDifferentLeavesMeet) {
  for (const bool dealt : {false, true})
    for (const auto& leaves : {Parts{{2, 2, 2}, {2, 2, 2}}, Parts{{1, 1, 1}, {1, 1}},
                               Parts{{2, 2}, {2, 2}, {2, 2}, {2, 2}}, Parts{{3}, {3, 3}, {3, 3}}}) {
      const Hierarchy lie = fabric(leaves, {}, dealt);
      std::set<std::pair<int, int>> met;
      for (uint32_t round = 0; round < rounds_of(lie, 2); ++round) {
        const auto partners = partners_of(lie, {.level = 2, .busy = 1, .round = round});
        for (int rank = 0; rank < lie.places(); ++rank)
          if (const int partner = partners[static_cast<size_t>(rank)]; partner >= 0)
            met.emplace(lie.part_of(0, rank), lie.part_of(0, partner));
      }
      for (int host = 0; host < lie.parts(0); ++host)
        for (int other = 0; other < lie.parts(0); ++other) {
          const int one = lie.members(0, host).front(), two = lie.members(0, other).front();
          EXPECT_EQ(met.count({host, other}) != 0, lie.part_of(1, one) != lie.part_of(1, two))
              << lie.text() << ": " << host << " and " << other;
        }
    }
}

TEST(TierPartners, AreNoneWhereThereIsNobody) {
  const Hierarchy pairs = fabric({{2}, {2}});  // a host in each leaf
  EXPECT_EQ(rounds_of(pairs, 1), 0U);
  EXPECT_EQ(rounds_of(pairs, 2), 1U);
  EXPECT_EQ(rounds_of(pairs, 3), 0U);
  for (const uint32_t level : {1U, 3U, 4000000000U})
    EXPECT_EQ(partners_of(pairs, {.level = level, .busy = 1}), std::vector<int>(4, -1));
  EXPECT_EQ(rounds_of(fabric(Parts(2, std::vector<int>(40, 1))), 2), 16U);
}

// Microseconds.
constexpr std::array<double, 4> kLatencies{0.5, 25, 40, 60};
constexpr double kBusy = 5;  // more

// What leaves a part shares its uplink; it also keeps the time.
struct Network {
  Hierarchy lie;
  std::vector<double> uplink_GBps{0.125, 0.1, 0.05};  // of a part, by level
  double seconds_left = 60;
  int probes = 0;

  std::vector<double> run(const Probe& probe) {
    ++probes;
    const std::vector<int> partners = partners_of(lie, probe);
    std::map<std::pair<int, int>, int> crossing;  // by level and part
    for (int rank = 0; rank < lie.places(); ++rank)
      for (int level = 0; level < static_cast<int>(probe.level); ++level)
        if (partners[static_cast<size_t>(rank)] >= 0) ++crossing[{level, lie.part_of(level, rank)}];
    std::vector<double> times(partners.size(), 0);
    for (int rank = 0; rank < lie.places(); ++rank) {
      const int partner = partners[static_cast<size_t>(rank)];
      if (partner < 0) continue;
      double rate = 8;
      for (int level = 0; level < static_cast<int>(probe.level); ++level)
        for (const int end : {rank, partner})
          rate = std::min(rate, uplink_GBps[static_cast<size_t>(level)] /
                                    crossing[{level, lie.part_of(level, end)}]);
      times[static_cast<size_t>(rank)] = kLatencies[probe.level] + (probe.busy != 0 ? kBusy : 0) +
                                         static_cast<double>(probe.bytes) * 1e-3 / rate;
    }
    seconds_left -= *std::max_element(times.begin(), times.end()) *
                    static_cast<double>(probe.iterations) * 1e-6;
    return times;
  }

  Measurement measure(double seconds) {
    auto measured = measure_links(
        lie,
        {.run = [&](const Probe& probe) -> Result<std::vector<double>> { return run(probe); },
         .seconds_left = [&] { return seconds_left; }},
        seconds);
    EXPECT_TRUE(measured.ok()) << measured.status().message();
    return std::move(*measured);
  }
};

void expect_link(const MeasuredLink& link, double latency_us, double rate, int pairs,
                 double busy_rate) {
  constexpr double kSmall = 8e-3;
  EXPECT_NEAR(link.latency_us, latency_us + kSmall / rate, 1e-6);
  EXPECT_NEAR(link.busy_latency_us, latency_us + kBusy + kSmall / busy_rate, 1e-6);
  EXPECT_NEAR(link.GBps, rate, 1e-4 * rate);
  EXPECT_EQ(link.pairs, pairs);
  EXPECT_NEAR(link.busy_GBps, busy_rate, 1e-4 * busy_rate);
}

TEST(TierProbes, FindTheUplinkThatALeafShares) {
  for (const bool dealt : {false, true}) {
    Network network{.lie = fabric({{2, 2, 2}, {2, 2, 2}}, {}, dealt)};
    const Measurement measured = network.measure(9);
    ASSERT_TRUE(measured.links.within && measured.links.between);
    ASSERT_EQ(measured.links.beyond.size(), 1U);
    expect_link(*measured.links.within, 0.5, 8, 1, 8);
    expect_link(*measured.links.between, 25, 0.125, 2, 0.125 / 2);
    EXPECT_EQ(measured.links.beyond[0].name, "leaf");
    expect_link(measured.links.beyond[0].link, 40, 0.1, 6, 0.1 / 6);
    EXPECT_NEAR(measured.links.beyond[0].link.spread, 0, 1e-9);
    for (int host = 0; host < 6; ++host)
      for (int other = 0; other < 6; ++other) {
        if (host == other) continue;
        const int one = network.lie.members(0, host).front();
        const int two = network.lie.members(0, other).front();
        const bool near = network.lie.part_of(1, one) == network.lie.part_of(1, two);
        EXPECT_NEAR(measured.edges.at(host, other), near ? 2 / 125.0 : 6 / 100.0, 1e-5);
      }
  }
}

// Hosts around the leaves: a ring should enter each leaf once.
TEST(TierProbes, FindTheRingThroughLeaves) {
  Network network{.lie = *Hierarchy::make(6, {{"host", {{0}, {1}, {2}, {3}, {4}, {5}}},
                                              {"leaf", {{0, 2, 4}, {1, 3, 5}}}})};
  const std::vector<int> ring = ring_that_gains(network.measure(9).edges);
  ASSERT_EQ(ring.size(), 6U);
  int entered = 0;
  for (size_t place = 0; place < 6; ++place)
    entered += ring[place] % 2 != ring[(place + 1) % 6] % 2 ? 1 : 0;
  EXPECT_EQ(entered, 2);
}

// Busy figures are those of the meeting of most pairs.
TEST(TierProbes, AreRightWherePartsDiffer) {
  Network network{.lie = fabric({{2}, {2, 2, 2}, {2, 2}})};
  const Measurement measured = network.measure(9);
  ASSERT_EQ(measured.links.beyond.size(), 1U);
  expect_link(*measured.links.between, 25, 0.125, 2, 0.125 / 2);
  expect_link(measured.links.beyond[0].link, 40, 0.1, 4, 0.1 / 4);
  EXPECT_TRUE(std::isfinite(measured.edges.at(0, 1)));

  Network lone{.lie = fabric({{1}, {1, 1, 1}})};
  const MeasuredLinks links = lone.measure(9).links;
  EXPECT_FALSE(links.within);
  expect_link(*links.between, 25, 0.125, 1, 0.125);
  ASSERT_EQ(links.beyond.size(), 1U);
  expect_link(links.beyond[0].link, 40, 0.1, 1, 0.1);
}

TEST(TierProbes, HaveALinkOfEachLevel) {
  Network network{.lie = fabric({{2, 2}, {2, 2}, {2, 2}, {2, 2}}, {{0, 2}, {1, 3}})};
  const Measurement measured = network.measure(9);
  ASSERT_EQ(measured.links.beyond.size(), 2U);
  expect_link(*measured.links.between, 25, 0.125, 2, 0.125 / 2);
  EXPECT_EQ(measured.links.beyond[0].name, "leaf");
  expect_link(measured.links.beyond[0].link, 40, 0.1, 4, 0.1 / 4);
  EXPECT_EQ(measured.links.beyond[1].name, "pod");
  expect_link(measured.links.beyond[1].link, 60, 0.05, 8, 0.05 / 8);
  const std::string text = report_of(measured.links);
  EXPECT_NE(text.find("# beyond a leaf: 40.0"), std::string::npos) << text;
  EXPECT_NE(text.find("us, 0.050 GB/s each way; 8 pairs at once 66."), std::string::npos) << text;
}

// Hosts of leaves that never talked have what their level has, and so have those of one leaf.
TEST(TierProbes, LeaveNoEdgeUnknown) {
  Network network{.lie = fabric(Parts(2, std::vector<int>(20, 1)))};
  const Measurement measured = network.measure(60);
  ASSERT_EQ(measured.links.beyond.size(), 1U);
  for (int host = 0; host < 40; ++host)
    for (int other = 0; other < 40; ++other)
      if (host != other) {
        EXPECT_NEAR(measured.edges.at(host, other),
                    (host < 20) == (other < 20) ? 1 / 0.125e3 : 20 / 0.1e3, 1e-5);
      }
}

// No level takes what another one needs, however slow it is.
TEST(TierProbes, ShareTheTime) {
  const Hierarchy lie = fabric({{2, 2}, {2, 2}, {2, 2}, {2, 2}}, {{0, 2}, {1, 3}});
  for (size_t slow = 0; slow < 3; ++slow) {
    Network network{.lie = lie};
    network.uplink_GBps[slow] = 0.01;
    const MeasuredLinks links = network.measure(3).links;
    EXPECT_TRUE(links.within && links.between) << slow;
    EXPECT_EQ(links.beyond.size(), 2U) << slow;
    EXPECT_GT(network.seconds_left, 56) << slow;
  }
  Network none{.lie = lie};
  EXPECT_EQ(none.measure(0).links, MeasuredLinks());
  EXPECT_EQ(none.probes, 0);
}

}  // namespace
}  // namespace banyan::tune::tier_probes_test
