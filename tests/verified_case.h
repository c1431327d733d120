// One collective call on all ranks, in few numbers, for the tests of schedules and of their
// verifier.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

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
};

inline std::ostream& operator<<(std::ostream& out, const VerifiedCase& call) {
  return out << algorithms()[static_cast<size_t>(call.algorithm)].name << ' '
             << name_of(call.collective) << " P=" << call.ranks << " n=" << call.count
             << " root=" << call.root << (call.in_place ? " in place " : " ") << name_of(call.type)
             << ' ' << name_of(call.op) << (call.check ? "" : " unchecked");
}

inline bool is_reduction(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter || collective == Collective::kReduceScatterv;
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
                  .recv_displacements = {}};
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
  for (int rank = 0; rank < call.ranks; ++rank) {
    built.problems.push_back(problem_of(call, rank));
    built.schedules.push_back(build_schedule(built.problems.back(),
                                             Group::everyone(call.ranks, rank),
                                             algorithms()[static_cast<size_t>(call.algorithm)]));
  }
  return built;
}

}  // namespace banyan
