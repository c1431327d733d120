// A case is one collective call on all ranks, in few numbers, for the tests of schedules and of
// their verifier.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

// Ways in which ranks may lie, with a name; what is drawn has as many places as ranks.
struct Shape {
  std::string name;
  Hierarchy hierarchy;
};

inline Shape shape_of(std::string name, const std::vector<int>& labels,
                      const std::vector<int>& coarser = {}) {
  std::vector<Hierarchy::Level> levels;
  for (const std::vector<int>* each : {&labels, &coarser}) {
    if (each->empty()) continue;
    Hierarchy::Level& level = levels.emplace_back();
    level.name = levels.size() == 1 ? "host" : "rack";
    level.parts.resize(static_cast<size_t>(*std::max_element(each->begin(), each->end())) + 1);
    for (size_t place = 0; place < each->size(); ++place)
      level.parts[static_cast<size_t>((*each)[place])].push_back(static_cast<int>(place));
  }
  return {std::move(name), *Hierarchy::make(static_cast<int>(labels.size()), levels)};
}

// Gives shapes of so many ranks: hosts of three, hosts of sizes that differ, numbered around the
// hosts, one rank per host, all on one, racks of hosts, and hosts in a ring that was told.
inline std::vector<Shape> shapes_of(int ranks) {
  const auto labels = [&](auto label) {
    std::vector<int> made;
    for (int place = 0; place < ranks; ++place) made.push_back(label(place));
    return made;
  };
  const int hosts = (ranks + 2) / 3;
  // 1, 2, 3, ... of them on hosts 0, 1, 2, ...
  const auto growing = [](int place) {
    int host = 0;
    for (int end = 1; place >= end; end += host + 1) ++host;
    return host;
  };
  // The odd hosts after the even ones.
  Shape ring = shape_of("round robin, in a ring of its own",
                        labels([&](int place) { return place % hosts; }));
  std::vector<int> order = labels([](int place) { return place; });
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const int left = a % hosts, right = b % hosts;
    return std::pair(left % 2, left) < std::pair(right % 2, right);
  });
  ring.hierarchy = ring.hierarchy.in_ring(std::move(order));
  return {std::move(ring),
          shape_of("threes", labels([](int place) { return place / 3; })),
          shape_of("twos in racks of two", labels([](int place) { return place / 2; }),
                   labels([](int place) { return place / 4; })),
          shape_of("1+2+3+...", labels(growing)),
          shape_of("round robin", labels([&](int place) { return place % hosts; })),
          shape_of("1+2+3+... in racks of two", labels(growing),
                   labels([&](int place) { return growing(place) / 2; })),
          shape_of("one each", labels([](int place) { return place; })),
          shape_of("one host", labels([](int) { return 0; })),
          shape_of("halves, around racks of two",
                   labels([&](int place) { return place % std::max(1, ranks / 2); }),
                   labels([&](int place) { return place % std::max(1, ranks / 2) % 2; }))};
}

struct VerifiedCase {
  Collective collective = Collective::kAllreduce;
  int algorithm = 0;
  int ranks = 1;
  uint64_t count = 0;
  int root = 0;
  bool in_place = false;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool check = true;
  std::shared_ptr<const Shape> shape = nullptr;  // flat without one
  Parameters parameters{};
  std::span<const Codec> codecs{};  // that the parameters number
  bool keeps_left = false;
};

inline std::ostream& operator<<(std::ostream& out, const VerifiedCase& call) {
  return out << text_of(call.algorithm, call.parameters) << ' ' << name_of(call.collective)
             << " P=" << call.ranks << " n=" << call.count << " root=" << call.root
             << (call.in_place ? " in place " : " ") << name_of(call.type) << ' '
             << name_of(call.op) << (call.check ? "" : " unchecked")
             << (call.keeps_left ? " keeping what is left" : "")
             << (call.shape == nullptr ? "" : ", " + call.shape->name) << ", codecs "
             << int{call.parameters.intra_codec.codec} << " and "
             << int{call.parameters.inter_codec.codec};
}

inline bool is_synchronisation(Collective collective) {
  return collective == Collective::kBarrier || collective == Collective::kFinalize ||
         collective == Collective::kSplit;
}

inline bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// Uneven, some of them 0.
inline uint64_t uneven_count(uint64_t count, int from, int to) {
  const auto salt = static_cast<uint64_t>(from) * 3 + static_cast<uint64_t>(to) * 5;
  return salt % 4 == 3 ? 0 : (count + salt) % (count + 2);
}

// Blocks in reverse order, an element between any two of them.
inline std::vector<uint64_t> gapped(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> places(counts.size());
  uint64_t end = 0;
  for (size_t index = counts.size(); index-- > 0;) {
    places[index] = end;
    end += counts[index] + 1;
  }
  return places;
}

inline std::vector<uint64_t> packed(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> places;
  uint64_t end = 0;
  for (const uint64_t count : counts) {
    places.push_back(end);
    end += count;
  }
  return places;
}

inline Problem problem_of(const VerifiedCase& call, int rank) {
  Problem problem{.collective = call.collective,
                  .type = call.type,
                  .op = call.op,
                  .count = call.count,
                  .root = call.root,
                  .in_place = call.in_place && (!has_root(call.collective) || rank == call.root),
                  .check = call.check,
                  .send_counts = {},
                  .send_displacements = {},
                  .recv_counts = {},
                  .recv_displacements = {},
                  .keeps_left = call.keeps_left};
  const bool exchanges = call.collective == Collective::kAlltoallv;
  const bool gathers = call.collective == Collective::kAllgatherv;
  if (!exchanges && !gathers && call.collective != Collective::kReduceScatterv) return problem;
  problem.count = 0;
  for (int peer = 0; peer < call.ranks; ++peer) {
    problem.recv_counts.push_back(uneven_count(call.count, peer, exchanges ? rank : 0));
    if (exchanges) problem.send_counts.push_back(uneven_count(call.count, rank, peer));
  }
  // Displacements are each rank's own.
  const bool gaps = (exchanges || gathers) && rank % 3 != 1;
  problem.recv_displacements = gaps ? gapped(problem.recv_counts) : packed(problem.recv_counts);
  if (exchanges) problem.send_displacements = gapped(problem.send_counts);
  return problem;
}

struct BuiltCase {
  std::vector<Schedule> schedules;
  std::vector<Problem> problems;
};

inline BuiltCase build_case(const VerifiedCase& call) {
  BuiltCase built;
  const Hierarchy* hierarchy = call.shape == nullptr ? nullptr : &call.shape->hierarchy;
  for (int rank = 0; rank < call.ranks; ++rank) {
    built.problems.push_back(problem_of(call, rank));
    Group group = Group::everyone(call.ranks, rank, hierarchy, call.parameters);
    group.codecs = call.codecs;
    built.schedules.push_back(build_schedule(built.problems.back(), group,
                                             algorithms()[static_cast<size_t>(call.algorithm)]));
  }
  return built;
}

}  // namespace banyan
