// Links are probed on networks made up here: who talks with whom, and what is made of the times.
// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/tune/result.h"
#include "bench/tune/sums.h"

namespace banyan::tune::probes_test {
namespace {

using Kind = Probe::Kind;

constexpr uint32_t kWithin = 0;
constexpr uint32_t kBetween = 1;

// Ranks around the hosts where `dealt`, else host by host.
std::vector<int> hosts_of(const std::vector<int>& sizes, bool dealt) {
  std::vector<int> labels;
  std::vector<int> left = sizes;
  if (!dealt)
    for (size_t host = 0; host < sizes.size(); ++host)
      labels.insert(labels.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  for (bool any = dealt; any;) {
    any = false;
    for (size_t host = 0; host < left.size(); ++host)
      if (left[host] > 0) {
        --left[host];
        any = true;
        labels.push_back(static_cast<int>(host));
      }
  }
  std::map<int, int> lowest;
  std::vector<int> hosts;
  for (size_t rank = 0; rank < labels.size(); ++rank)
    hosts.push_back(lowest.try_emplace(labels[rank], static_cast<int>(rank)).first->second);
  return hosts;
}

Hierarchy by_host(const std::vector<int>& hosts) {
  return Hierarchy::of_labels("host", hosts);
}

TEST(Partners, AgreeWithEachOtherAndKeepToTheirLevel) {
  const std::vector<std::vector<int>> shapes{{1},
                                             {2},
                                             {5},
                                             {1, 1},
                                             {2, 2},
                                             {1, 2, 3},
                                             {4, 4},
                                             {2, 2, 2},
                                             {1, 1, 1, 1},
                                             {3, 1, 2, 2},
                                             {2, 2, 2, 2, 2},
                                             {1, 7},
                                             {1, 1, 1},
                                             {3, 3},
                                             {2, 1, 2, 1, 2, 1}};
  for (const auto& shape : shapes)
    for (const bool dealt : {false, true})
      for (const uint32_t level : {kWithin, kBetween})
        for (const uint32_t busy : {0U, 1U})
          for (uint32_t round = 0; round < rounds_of(by_host(hosts_of(shape, dealt)), level);
               ++round) {
            const std::vector<int> hosts = hosts_of(shape, dealt);
            const Probe probe{.level = level, .busy = busy, .round = round};
            const std::vector<int> partners = partners_of(by_host(hosts), probe);
            ASSERT_EQ(partners.size(), hosts.size());
            std::map<int, int> active;
            for (size_t rank = 0; rank < partners.size(); ++rank) {
              if (partners[rank] < 0) continue;
              const auto partner = static_cast<size_t>(partners[rank]);
              ASSERT_LT(partner, partners.size());
              EXPECT_EQ(partners[partner], static_cast<int>(rank));
              EXPECT_EQ(hosts[partner] == hosts[rank], level == kWithin);
              ++active[hosts[rank]];
            }
            EXPECT_FALSE(active.empty());
            for (const auto& [host, ranks] : active)
              if (busy == 0) {
                EXPECT_EQ(ranks, level == kWithin ? 2 : 1);
              }
          }
}

TEST(Partners, LetEveryTwoHostsMeetOnce) {
  for (int count = 2; count <= 16; ++count) {
    const std::vector<int> hosts = hosts_of(std::vector<int>(static_cast<size_t>(count), 2), false);
    std::set<std::pair<int, int>> met;
    for (uint32_t round = 0; round < rounds_of(by_host(hosts), kBetween); ++round) {
      const auto partners = partners_of(by_host(hosts), {.level = kBetween, .round = round});
      for (size_t rank = 0; rank < partners.size(); ++rank)
        if (partners[rank] > static_cast<int>(rank)) {
          EXPECT_TRUE(met.emplace(hosts[rank], hosts[static_cast<size_t>(partners[rank])]).second);
        }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(count * (count - 1) / 2)) << count << " hosts";
  }
  EXPECT_EQ(rounds_of(by_host(hosts_of(std::vector<int>(100, 1), false)), kBetween), 16U);
  EXPECT_EQ(rounds_of(by_host(hosts_of({1, 1, 1}, false)), kWithin), 0U);
  EXPECT_EQ(rounds_of(by_host(hosts_of({3}, false)), kBetween), 0U);
}

// A network with one cable for each host, and memory; it also keeps the time.
struct MadeUp {
  std::vector<int> hosts;
  double seconds_left = 60;
  double cable_GBps = 0.125;
  double slow_host_GBps = 0.125;  // of the host of rank 0
  int racks = 0;                  // host h is in rack h modulo racks; 0: there are none
  double rack_GBps = 0.1;         // of the cable of a rack
  double burst_bytes = 0;         // that a cable lets pass at once
  int probes = 0;

  std::vector<double> run(const Probe& probe) {
    ++probes;
    const std::vector<int> partners = partners_of(by_host(hosts), probe);
    std::map<int, int> active;
    for (size_t rank = 0; rank < partners.size(); ++rank)
      if (partners[rank] >= 0) ++active[hosts[rank]];
    int crossing = 0;  // ranks whose partner is in another rack
    for (size_t rank = 0; rank < partners.size(); ++rank)
      if (racks > 0 && partners[rank] >= 0 &&
          hosts[rank] % racks != hosts[static_cast<size_t>(partners[rank])] % racks)
        ++crossing;
    std::vector<double> times(partners.size(), -1);
    for (size_t rank = 0; rank < partners.size(); ++rank) {
      if (partners[rank] < 0) continue;
      const bool near = probe.level == kWithin;
      const bool slow = hosts[rank] == 0 || hosts[static_cast<size_t>(partners[rank])] == 0;
      double rate = near ? 8 : (slow ? slow_host_GBps : cable_GBps) / active[hosts[rank]];
      const auto rack = [&](int host) { return racks == 0 ? 0 : host % racks; };
      if (rack(hosts[rank]) != rack(hosts[static_cast<size_t>(partners[rank])]))
        rate = std::min(rate, rack_GBps * racks / static_cast<double>(crossing));
      const double start = (near ? 0.5 : 25) + (probe.busy != 0 ? 5 : 0);
      times[rank] =
          probe.kind == Kind::kWindow
              ? 1.5
              : start + std::max(static_cast<double>(probe.bytes) - (near ? 0 : burst_bytes), 0.0) *
                            1e-3 / rate;
    }
    seconds_left -= *std::max_element(times.begin(), times.end()) *
                    static_cast<double>(probe.iterations) * 1e-6;
    return times;
  }
  Result<MeasuredLinks> measure(double seconds) {
    const auto measured = measure_all(seconds);
    if (!measured.ok()) return measured.status();
    return measured->links;
  }
  Result<Measurement> measure_all(double seconds) {
    return measure_links(
        by_host(hosts),
        {.run = [&](const Probe& probe) -> Result<std::vector<double>> { return run(probe); },
         .seconds_left = [&] { return seconds_left; }},
        seconds);
  }
};

TEST(MeasureLinks, FindsWhatTheNetworkIsMadeOf) {
  MadeUp network{.hosts = hosts_of({2, 2, 2, 2}, false)};
  const auto links = network.measure(30);
  ASSERT_TRUE(links.ok());
  ASSERT_TRUE(links->between && links->within);
  EXPECT_NEAR(links->between->latency_us, 25, 0.1);
  EXPECT_NEAR(links->between->busy_latency_us, 30, 0.2);
  EXPECT_NEAR(links->between->message_us, 1.5, 1e-9);
  EXPECT_NEAR(links->between->GBps, 0.125, 1e-6);
  EXPECT_NEAR(links->between->busy_GBps, 0.0625, 1e-6);
  EXPECT_EQ(links->between->pairs, 2);
  EXPECT_NEAR(links->between->spread, 0, 1e-9);
  EXPECT_NEAR(links->within->latency_us, 0.5, 0.01);
  EXPECT_NEAR(links->within->GBps, 8, 1e-3);
  EXPECT_EQ(links->within->pairs, 1);
}

TEST(MeasureLinks, SaysThatLinksAreUneven) {
  MadeUp network{.hosts = hosts_of({1, 1, 1, 1}, false), .slow_host_GBps = 0.05};
  const auto links = network.measure(30);
  ASSERT_TRUE(links.ok());
  ASSERT_TRUE(links->between);
  EXPECT_GT(links->between->spread, 0.5);
  EXPECT_FALSE(links->within);
}

TEST(MeasureLinks, DoubtsRatesThatAreNone) {
  MadeUp network{.hosts = hosts_of({2, 2, 2, 2}, false)};
  const auto steady = network.measure_all(30);
  ASSERT_TRUE(steady.ok());
  EXPECT_EQ(steady->misfits.size(), 2U);
  EXPECT_EQ(doubts_of(*steady, {}), "");
  network.burst_bytes = 256 << 10;
  network.seconds_left = 60;
  const auto bursts = network.measure_all(30);
  ASSERT_TRUE(bursts.ok());
  const std::string text = doubts_of(*bursts, {});
  EXPECT_EQ(text.rfind("# doubtful: between hosts long messages are ", 0), 0U) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// A host carries 0.125 GB/s here.
TEST(MeasureLinks, DoubtsWhatNicsDoNotSay) {
  MadeUp network{.hosts = hosts_of({2, 2}, false)};
  const auto measured = network.measure_all(30);
  ASSERT_TRUE(measured.ok());
  const auto doubts = [&](const std::vector<double>& nics) { return doubts_of(*measured, nics); };
  for (const std::vector<double>& nics :
       std::vector<std::vector<double>>{{}, {0.125}, {0.11}, {0.45}, {0.06, 0.06}, {0.4, 100}})
    EXPECT_EQ(doubts(nics), "");
  EXPECT_EQ(doubts({0.05, 0.05}),
            "# doubtful: a host carries 0.125 GB/s to others, its NICs 0.1 by their own account\n");
  EXPECT_EQ(
      doubts({12.5, 1.25}),
      "# doubtful: a host carries only 0.125 GB/s to others, a NIC 1.25 by its own account\n");
  Measurement one_host = *measured;
  one_host.links.between.reset();
  EXPECT_EQ(doubts_of(one_host, {100}), "");
}

// A ring should enter each rack once, where hosts are dealt around the racks.
TEST(MeasureLinks, FindsTheRingThroughRacks) {
  MadeUp network{.hosts = hosts_of(std::vector<int>(6, 1), false), .racks = 2};
  const auto measured = network.measure_all(30);
  ASSERT_TRUE(measured.ok());
  ASSERT_EQ(measured->edges.hosts, 6);
  EXPECT_NEAR(measured->edges.at(0, 2), 1e-3 / 0.125, 1e-6);
  EXPECT_EQ(measured->edges.at(0, 1), measured->edges.at(1, 0));
  EXPECT_GT(measured->edges.at(0, 1), 1.2 * measured->edges.at(0, 2));
  const std::vector<int> ring = ring_that_gains(measured->edges);
  ASSERT_EQ(ring.size(), 6U);
  int entered = 0;
  for (size_t place = 0; place < 6; ++place)
    entered += ring[place] % 2 != ring[(place + 1) % 6] % 2 ? 1 : 0;
  EXPECT_EQ(entered, 2);
}

TEST(MeasureSums, HasRatesThatACoreMayHave) {
  const std::optional<MeasuredSums> sums = measure_sums();
  ASSERT_TRUE(sums);
  EXPECT_GT(sums->far_GBps, 0.01);
  EXPECT_LE(sums->far_GBps, sums->GBps);
  EXPECT_LT(sums->GBps, 10000);
}

TEST(RingThatGains, IsNoneWhereLinksAreOfOneKind) {
  EdgeCosts edges(5);
  EXPECT_TRUE(ring_that_gains(edges).empty());  // nothing was measured
  for (int from = 0; from < 5; ++from)
    for (int to = 0; to < 5; ++to) edges.at(from, to) = 8 + (from + to) % 3 * 0.4;
  EXPECT_TRUE(ring_that_gains(edges).empty());
  edges.at(1, 2) = edges.at(2, 1) = 9.8;  // by itself less than a fifth slower
  EXPECT_EQ(ring_that_gains(edges).size(), 5U);
  EXPECT_TRUE(ring_that_gains(EdgeCosts(2)).empty());
}

// What is left of the time is kept, and what was not measured is not made up.
TEST(MeasureLinks, EndsInTime) {
  MadeUp slow{.hosts = hosts_of({2, 2}, false), .cable_GBps = 0.001, .slow_host_GBps = 0.001};
  const auto some = slow.measure(10);
  ASSERT_TRUE(some.ok());
  EXPECT_GT(slow.seconds_left, 45);
  ASSERT_TRUE(some->between);
  EXPECT_NEAR(some->between->GBps, 0.001, 1e-5);

  MadeUp none{.hosts = hosts_of({2, 2}, false)};
  const auto nothing = none.measure(0);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, MeasuredLinks());
  EXPECT_EQ(none.probes, 0);
}

TEST(MeasureLinks, ReportsAProbeThatFails) {
  const Prober broken{.run = [](const Probe&) -> Result<std::vector<double>> {
                        return Status(Code::kPeerLost, "rank 1 is gone");
                      },
                      .seconds_left = [] { return 60.0; }};
  const auto links = measure_links(by_host(hosts_of({1, 1}, false)), broken, 10);
  EXPECT_EQ(links.status().code(), Code::kPeerLost);
}

}  // namespace
}  // namespace banyan::tune::probes_test
