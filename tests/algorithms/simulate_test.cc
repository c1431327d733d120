// Simulated times are compared with what can be computed by hand: closed forms of flat schedules,
// cores and wires that are shared, uplinks of leaf switches and pods, and the published bounds of
// rings over hosts.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/simulate.h"

#include <gtest/gtest.h>

#include <bit>
#include <string_view>

#include "algorithms/algorithms.h"
#include "algorithms/builder.h"
#include "topology/hierarchy.h"

namespace banyan::simulate_test {
namespace {

std::vector<Schedule> build(std::string_view algorithm, int ranks, uint64_t count,
                            Collective collective = Collective::kAllreduce,
                            const Hierarchy* hierarchy = nullptr) {
  Problem problem;
  problem.collective = collective;
  problem.count = count;
  problem.check = false;
  const Algorithm& named = algorithms()[static_cast<size_t>(find_algorithm(algorithm))];
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(build_schedule(problem, Group::everyone(ranks, rank, hierarchy), named));
  return schedules;
}

// So many ranks with a core each, `per_host` on every host.
SimulatedMachine cluster(int ranks, int per_host) {
  SimulatedMachine machine;
  for (int rank = 0; rank < ranks; ++rank) machine.seats.push_back({rank, rank / per_host});
  return machine;
}

struct Pair {
  int from, to;
};

// A message for each pair, all at once.
std::vector<Schedule> messages(int ranks, const std::vector<Pair>& pairs, uint64_t bytes) {
  std::vector<ScheduleBuilder> builders(static_cast<size_t>(ranks));
  for (const Pair& pair : pairs) {
    builders[static_cast<size_t>(pair.from)].send({Space::kInput, 0, bytes}, pair.to);
    builders[static_cast<size_t>(pair.to)].recv({Space::kOutput, 0, bytes}, pair.from);
  }
  std::vector<Schedule> schedules;
  for (ScheduleBuilder& builder : builders) schedules.push_back(std::move(builder).finish());
  return schedules;
}

// Two ranks, one message.
std::vector<Schedule> one_message(uint64_t bytes) {
  return messages(2, {{0, 1}}, bytes);
}

TEST(Simulate, AMessageTakesItsParts) {
  SimulatedMachine machine = cluster(2, 1);
  machine.between = {.latency = 5, .send = 1, .recv = 2, .wire_byte = 0.5};
  machine.work.call = 10;
  const Simulated found = simulate(one_message(100), machine);
  EXPECT_DOUBLE_EQ(found.seconds, 10 + 1 + 5 + 50 + 2);
  EXPECT_DOUBLE_EQ(found.busiest_wire, 50);
  EXPECT_DOUBLE_EQ(found.busiest_core, 12);
  EXPECT_EQ(found.wire_bytes, 100U);
  EXPECT_EQ(found.unfinished, 0U);
}

// At most 40 bytes, of 100 that are encoded and decoded.
TEST(Simulate, AMessageOfACodecIsAsLongAsItCanBe) {
  SimulatedMachine machine = cluster(2, 1);
  machine.between = {.latency = 5, .wire_byte = 1};
  machine.work.codec_byte = 2;
  std::vector<Schedule> schedules;
  for (const int rank : {0, 1}) {
    ScheduleBuilder builder;
    const Slice slot = builder.wire_slot(40);
    const Slice values{rank == 0 ? Space::kInput : Space::kOutput, 0, 100};
    if (rank == 0) {
      builder.encode_by(1, DataType::kFloat32, values, slot);
      builder.send(slot, 1);
    } else {
      builder.recv(slot, 0);
      builder.decode_by(1, DataType::kFloat32, slot, values);
    }
    schedules.push_back(std::move(builder).finish());
  }
  const Simulated found = simulate(schedules, machine);
  EXPECT_DOUBLE_EQ(found.seconds, 200 + 5 + 40 + 200);
  EXPECT_EQ(found.wire_bytes, 40U);
}

TEST(Simulate, CopiesAtBothEndsOverlapByPortions) {
  SimulatedMachine machine = cluster(2, 2);
  machine.within = {.send_byte = 1, .recv_byte = 1, .portion = 10};
  EXPECT_DOUBLE_EQ(simulate(one_message(100), machine).seconds, 110);
  machine.within.recv_byte = 3;  // then its copy is what takes long
  EXPECT_DOUBLE_EQ(simulate(one_message(100), machine).seconds, 10 + 300);
  machine.within.portion = 1000;  // one after the other
  EXPECT_DOUBLE_EQ(simulate(one_message(100), machine).seconds, 400);
}

TEST(Simulate, RanksOfOneCoreWorkInTurn) {
  SimulatedMachine machine = cluster(2, 2);
  machine.within = {.send_byte = 1, .recv_byte = 1, .portion = 10};
  machine.seats[1].core = 0;
  EXPECT_DOUBLE_EQ(simulate(one_message(100), machine).seconds, 200);
}

TEST(Simulate, MessagesQueueForAWire) {
  SimulatedMachine machine = cluster(3, 1);
  machine.between = {.latency = 1, .wire_byte = 1};
  // Ranks 1 and 2 send 100 bytes each to rank 0 at once.
  const std::vector<Schedule> schedules = build("direct", 3, 25, Collective::kGather);
  EXPECT_DOUBLE_EQ(simulate(schedules, machine).seconds, 1 + 200);
}

TEST(Simulate, CountsWhatNeverRuns) {
  SimulatedMachine machine = cluster(2, 1);
  std::vector<Schedule> schedules = one_message(100);
  schedules[0] = ScheduleBuilder().finish();
  schedules[1].dependency_count[0] = 1;  // of a step that is not there
  EXPECT_EQ(simulate(schedules, machine).unfinished, 1U);
}

// 2 (P - 1) messages of n / P follow each other; 2 ceil(log2 P) with the same bytes; log2 P of n.
// Where the number is no power of two, some rounds of circulant do not wait for the one before.
TEST(Simulate, FlatSchedulesTakeWhatTheirFormulasSay) {
  for (const int ranks : {2, 3, 4, 7, 8, 16}) {
    SimulatedMachine machine = cluster(ranks, 1);
    machine.between = {.latency = 1000, .wire_byte = 1, .portion = UINT64_MAX};
    const double bytes = 4.0 * 16 * ranks;
    const double least = 2 * (ranks - 1.0) / ranks * bytes;
    const uint64_t count = 16 * static_cast<uint64_t>(ranks);
    const double rounds = std::bit_width(static_cast<unsigned>(ranks) - 1);
    EXPECT_DOUBLE_EQ(simulate(build("ring", ranks, count), machine).seconds,
                     2 * (ranks - 1) * 1000 + least);
    const double circulant = simulate(build("circulant", ranks, count), machine).seconds;
    EXPECT_LE(circulant, 2 * rounds * 1000 + least);
    if (!std::has_single_bit(static_cast<unsigned>(ranks))) continue;
    EXPECT_DOUBLE_EQ(circulant, 2 * rounds * 1000 + least);
    EXPECT_DOUBLE_EQ(simulate(build("recursive_doubling", ranks, count), machine).seconds,
                     rounds * (1000 + bytes));
  }
}

// Sums are taken as they arrive where a portion is short, and add up where it is not.
TEST(Simulate, SumsHideBehindTheWire) {
  SimulatedMachine machine = cluster(2, 1);
  machine.between = {.wire_byte = 1, .portion = 4};
  machine.work.reduce_byte = 0.5;
  const std::vector<Schedule> schedules = build("recursive_doubling", 2, 100);
  EXPECT_NEAR(simulate(schedules, machine).seconds, 400 + 2, 1e-9);
  machine.between.portion = UINT64_MAX;
  EXPECT_NEAR(simulate(schedules, machine).seconds, 400 + 200, 1e-9);
}

// Two leaves of two hosts, a rank on each. A byte takes 1 on a host's wire.
class TwoLeavesOfTwo : public testing::Test {
 protected:
  TwoLeavesOfTwo() : machine_(cluster(4, 1)) {
    machine_.between = {.latency = 1, .wire_byte = 1};
    machine_.tiers = {{.part_of_host = {0, 0, 1, 1}, .latency = 10}};
  }
  // 100 bytes for each pair.
  Simulated with(double uplink_byte, const std::vector<Pair>& pairs) {
    machine_.tiers[0].wire_byte = uplink_byte;
    return simulate(messages(4, pairs, 100), machine_);
  }

  SimulatedMachine machine_;
};

TEST_F(TwoLeavesOfTwo, MessagesInsideALeafDoNotTouchUplinks) {
  const Simulated found = with(5, {{0, 1}, {3, 2}});
  EXPECT_DOUBLE_EQ(found.seconds, 1 + 100);
  EXPECT_DOUBLE_EQ(found.busiest_wire, 100);
  EXPECT_EQ(found.wire_bytes, 200U);
  EXPECT_DOUBLE_EQ(with(5, {{0, 1}, {2, 3}, {1, 2}}).seconds, 10 + 500);
}

TEST_F(TwoLeavesOfTwo, TheSlowestWireSaysHowLongAMessageTakes) {
  const Simulated slow = with(2, {{0, 2}});
  EXPECT_DOUBLE_EQ(slow.seconds, 10 + 200);
  EXPECT_DOUBLE_EQ(slow.busiest_wire, 200);
  EXPECT_EQ(slow.wire_bytes, 100U);
  for (const double fast : {0.0, 0.5, 1.0}) {
    EXPECT_DOUBLE_EQ(with(fast, {{0, 2}}).seconds, 10 + 100);
    EXPECT_DOUBLE_EQ(with(fast, {{0, 2}}).busiest_wire, 100);
  }
}

TEST_F(TwoLeavesOfTwo, MessagesShareTheUplink) {
  const std::vector<Pair> across = {{0, 2}, {1, 3}};
  EXPECT_DOUBLE_EQ(with(2, across).seconds, 10 + 400);
  EXPECT_DOUBLE_EQ(with(2, across).busiest_wire, 400);
  EXPECT_DOUBLE_EQ(with(1, across).seconds, 10 + 200);
  // It has to itself no time in which the hosts' wires bring no bytes.
  EXPECT_DOUBLE_EQ(with(0.75, across).seconds, 10 + 150);
  EXPECT_DOUBLE_EQ(with(0.5, across).seconds, 10 + 100);
  EXPECT_DOUBLE_EQ(with(0, across).seconds, 10 + 100);
  // Into one host: its wire is what takes long.
  EXPECT_DOUBLE_EQ(with(0.5, {{0, 2}, {1, 2}}).seconds, 10 + 200);
}

TEST_F(TwoLeavesOfTwo, DirectionsDoNotShareIt) {
  EXPECT_DOUBLE_EQ(with(2, {{0, 2}, {3, 1}}).seconds, 10 + 200);
  EXPECT_DOUBLE_EQ(with(2, {{0, 2}, {3, 1}}).busiest_wire, 200);
}

TEST_F(TwoLeavesOfTwo, TheUplinkIntoALeafIsSharedToo) {
  machine_.tiers[0].part_of_host = {0, 0, 1, 2};
  EXPECT_DOUBLE_EQ(with(2, {{2, 0}, {3, 1}}).seconds, 10 + 400);
  EXPECT_DOUBLE_EQ(with(2, {{2, 0}, {3, 1}}).busiest_wire, 400);
}

// The last portion is copied when the slowest wire has carried it.
TEST_F(TwoLeavesOfTwo, ReceiversCopyWhatUplinksHaveCarried) {
  machine_.between.recv_byte = 0.5;
  machine_.between.portion = 10;
  EXPECT_DOUBLE_EQ(with(2, {{0, 2}}).seconds, 10 + 200 + 5);
  EXPECT_DOUBLE_EQ(with(0.5, {{0, 2}}).seconds, 10 + 100 + 5);
  machine_.between.recv_byte = 4;  // then its copy is what takes long, from the first portion on
  EXPECT_DOUBLE_EQ(with(2, {{0, 2}}).seconds, 10 + 20 + 400);
}

// Two pods of two leaves of two hosts.
TEST(Simulate, TiersLieAboveEachOther) {
  SimulatedMachine machine = cluster(8, 1);
  machine.between = {.latency = 1, .wire_byte = 1};
  const auto with = [&](double leaf_byte, double pod_byte, const std::vector<Pair>& pairs) {
    machine.tiers = {{{0, 0, 1, 1, 2, 2, 3, 3}, 10, leaf_byte},
                     {{0, 0, 0, 0, 1, 1, 1, 1}, 100, pod_byte}};
    return simulate(messages(8, pairs, 100), machine);
  };
  EXPECT_DOUBLE_EQ(with(2, 4, {{0, 1}}).seconds, 1 + 100);
  EXPECT_DOUBLE_EQ(with(2, 4, {{0, 2}}).seconds, 10 + 200);
  EXPECT_DOUBLE_EQ(with(2, 4, {{0, 4}}).seconds, 100 + 400);
  EXPECT_DOUBLE_EQ(with(4, 2, {{0, 4}}).seconds, 100 + 400);
  // Two leaves share what is above them.
  const Simulated above = with(2, 4, {{0, 4}, {2, 6}});
  EXPECT_DOUBLE_EQ(above.seconds, 100 + 800);
  EXPECT_DOUBLE_EQ(above.busiest_wire, 800);
  EXPECT_EQ(above.wire_bytes, 200U);
  EXPECT_DOUBLE_EQ(with(4, 2, {{0, 4}, {2, 6}}).seconds, 100 + 400);
  // Two messages leave one leaf; one of them stays in the pod.
  EXPECT_DOUBLE_EQ(with(4, 1, {{0, 4}, {1, 2}}).seconds, 10 + 800);
  EXPECT_DOUBLE_EQ(with(1, 4, {{0, 4}, {1, 2}}).seconds, 100 + 400);
}

// There are 64 ranks on 8 hosts with one wire each, ten times as slow as what is inside, in units
// of the time in which a core sends a vector. What must leave a host and come in takes 2 * 7 / 8 *
// 10 = 17.5.
class EightHostsOfEight : public testing::Test {
 protected:
  static constexpr int kRanks = 64, kHosts = 8;

  EightHostsOfEight() : machine_(cluster(kRanks, kRanks / kHosts)) {
    machine_.within = {.send_byte = 1, .portion = 1};
    machine_.between = {.wire_byte = 10, .portion = 1};
  }
  double vectors(std::string_view algorithm, uint64_t bytes) {
    std::vector<int> host;
    for (const Seat& seat : machine_.seats) host.push_back(seat.host);
    const Hierarchy hosts = Hierarchy::of_labels("host", host);
    const auto schedules = build(algorithm, kRanks, bytes / 4, Collective::kAllreduce, &hosts);
    return simulate(schedules, machine_).seconds / static_cast<double>(bytes);
  }
  void number_around_the_hosts() {
    for (int rank = 0; rank < kRanks; ++rank)
      machine_.seats[static_cast<size_t>(rank)].host = rank % kHosts;
  }

  SimulatedMachine machine_;
};

// A ring crosses each wire once, 2 * 63 / 64 * 10, however ranks are numbered; if it knew of no
// hosts, and ranks were numbered around them, eight times.
TEST_F(EightHostsOfEight, ARingCrossesThemOnce) {
  EXPECT_NEAR(vectors("ring", 16384), 19.69, 0.1);
  number_around_the_hosts();
  EXPECT_NEAR(vectors("ring", 16384), 19.69, 0.1);
  EXPECT_NEAR(simulate(build("ring", kRanks, 4096), machine_).seconds / 16384, 157.5, 0.5);
}

// Two leaves of four hosts: what all of them can send goes through, or four times as slowly as one.
TEST_F(EightHostsOfEight, ARingCrossesTheirLeavesOnce) {
  machine_.tiers = {{.part_of_host = {0, 0, 0, 0, 1, 1, 1, 1}, .wire_byte = 10.0 / 4}};
  EXPECT_NEAR(vectors("ring", 16384), 19.69, 0.1);
  machine_.tiers[0].wire_byte = 40;
  EXPECT_NEAR(vectors("ring", 16384), 78.75, 0.4);
}

// Segments hide what is done inside behind the wires, and the numbering does not matter.
TEST_F(EightHostsOfEight, SegmentsOfTheHierarchyOverlap) {
  const double in_turn = vectors("hierarchical", 16384);
  const double in_segments = vectors("hierarchical", 256 << 20);
  EXPECT_GE(in_segments, 17.5);
  EXPECT_LT(in_segments, in_turn - 0.5);
  number_around_the_hosts();
  EXPECT_NEAR(vectors("hierarchical", 256 << 20), in_segments, 0.01);
}

}  // namespace
}  // namespace banyan::simulate_test
