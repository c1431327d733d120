// SPDX-License-Identifier: Apache-2.0

#include "algorithms/problem.h"

#include <algorithm>
#include <numeric>

namespace banyan {

Group Group::everyone(int size, int rank, const Hierarchy* hierarchy,
                      const Parameters& parameters) {
  Group group{std::vector<int>(static_cast<size_t>(size)), rank, hierarchy, parameters};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

int Group::place_of(int rank) const {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

bool may_encode(const Problem& problem) {
  const bool sums = problem.op == ReduceOp::kSum || problem.op == ReduceOp::kAvg ||
                    problem.op == ReduceOp::kPreMulSum;
  const bool floats = problem.type == DataType::kFloat32 || problem.type == DataType::kFloat16 ||
                      problem.type == DataType::kBfloat16;
  return reduces(problem.collective) && sums && floats;
}

bool may_keep_left(const Problem& problem) {
  return problem.collective == Collective::kAllreduce && problem.type == DataType::kFloat32 &&
         problem.op == ReduceOp::kSum;
}

bool sums_in_rank_order(const Problem& problem) {
  const bool extremes = problem.op == ReduceOp::kMin || problem.op == ReduceOp::kMax;
  return problem.invariant && reduces(problem.collective) && is_floating(problem.type) && !extremes;
}

Problem equal_blocks(Collective collective, DataType type, uint64_t count, int ranks) {
  Problem problem;
  problem.collective = collective;
  problem.type = type;
  problem.count = count;
  if (!has_blocks_of_own_length(collective)) return problem;
  problem.recv_counts.assign(static_cast<size_t>(ranks), count);
  problem.recv_displacements.resize(static_cast<size_t>(ranks));
  std::exclusive_scan(problem.recv_counts.begin(), problem.recv_counts.end(),
                      problem.recv_displacements.begin(), uint64_t{0});
  problem.send_counts = problem.recv_counts;
  problem.send_displacements = problem.recv_displacements;
  return problem;
}

Part part_of(uint64_t n, int parts, int index) {
  const auto count = static_cast<uint64_t>(parts);
  const auto at = static_cast<uint64_t>(index);
  const uint64_t size = n / count;
  const uint64_t rest = n % count;
  return {at * size + std::min(at, rest), size + (at < rest ? 1 : 0)};
}

Part part_of_units(uint64_t n, uint64_t unit, int parts, int index) {
  if (unit == 1) return part_of(n, parts, index);
  const Part units = part_of(n / unit + (n % unit != 0 ? 1 : 0), parts, index);
  const uint64_t begin = std::min(n, units.begin * unit);
  return {begin, std::min(n - begin, units.count * unit)};
}

}  // namespace banyan
