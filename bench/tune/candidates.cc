// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/candidates.h"

#include "algorithms/algorithms.h"
#include "src/base/parse.h"

namespace banyan::tune {
namespace {

constexpr std::string_view kByNccl = "hierarchical(intra=nccl)";
constexpr std::string_view kItsAlgorithm = "hierarchical";

bool nccl_moves(perf::Pattern pattern) {
  switch (pattern) {
    case perf::Pattern::kAllreduce:
    case perf::Pattern::kAllgather:
    case perf::Pattern::kReduceScatter:
    case perf::Pattern::kBroadcast:
    case perf::Pattern::kReduce: return true;
    default: return false;
  }
}

}  // namespace

bool goes_by_nccl(int candidate) {
  return candidate == static_cast<int>(algorithms().size());
}

std::string_view candidate_text(int candidate) {
  return goes_by_nccl(candidate) ? kByNccl : algorithms()[static_cast<size_t>(candidate)].name;
}

std::string_view candidate_algorithm(int candidate) {
  return goes_by_nccl(candidate) ? kItsAlgorithm : candidate_text(candidate);
}

std::vector<int> candidates_for(perf::Pattern pattern, bool levels, perf::Home home) {
  const auto collective = parse_collective(perf::name_of(pattern));
  const auto count = static_cast<int>(algorithms().size());
  std::vector<int> found;
  for (int i = 0; i < count; ++i) {
    const bool same = algorithms()[static_cast<size_t>(i)].by_levels && !levels;
    if (fits(i, *collective) && !same) found.push_back(i);
  }
  if (home == perf::Home::kDevice && nccl_moves(pattern)) found.push_back(count);
  return found;
}

}  // namespace banyan::tune
