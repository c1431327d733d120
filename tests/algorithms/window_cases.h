// Calls whose ranks may have windows, as their schedules are before any GPU sees them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/peers.h"
#include "algorithms/staging.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"

namespace banyan {

inline constexpr uint64_t kSmallWindow = 8192;  // so that calls have several portions

// Ranks of one host, with buffers on GPUs where `on_gpu` says so.
template <typename OnGpu>
BuiltCase built_with_peers(VerifiedCase call, uint64_t window, OnGpu on_gpu) {
  call.algorithm = find_algorithm("direct");
  BuiltCase built = build_case(call);
  for (int rank = 0; rank < call.ranks; ++rank) {
    Problem& problem = built.problems[static_cast<size_t>(rank)];
    Schedule& schedule = built.schedules[static_cast<size_t>(rank)];
    if (on_gpu(rank)) problem.staging = {.input = true, .output = true};
    if (problem.staging.any()) schedule = stage(schedule, problem.staging);
    Group group = Group::everyone(call.ranks, rank, nullptr, call.parameters);
    group.codecs = call.codecs;
    schedule = with_peers(schedule, problem, group, window);
  }
  return built;
}

inline BuiltCase all_with_peers(const VerifiedCase& call, uint64_t window) {
  return built_with_peers(call, window, [](int) { return true; });
}

// Ranks of several hosts.
template <typename OnGpu>
BuiltCase built_on_hosts(const VerifiedCase& call, OnGpu on_gpu) {
  BuiltCase made;
  for (int rank = 0; rank < call.ranks; ++rank) {
    Problem& problem = made.problems.emplace_back(problem_of(call, rank));
    if (on_gpu(rank)) problem.staging = {.input = true, .output = true, .left = call.keeps_left};
    Group group = Group::everyone(call.ranks, rank, &call.shape->hierarchy, call.parameters);
    group.codecs = call.codecs;
    group.has_windows_inside = true;
    Schedule& schedule = made.schedules.emplace_back(
        build_schedule(problem, group, algorithms()[static_cast<size_t>(call.algorithm)]));
    if (problem.staging.any()) schedule = stage(schedule, problem.staging);
  }
  return made;
}

inline std::string fault_of(const BuiltCase& built, Branch branch, int slots, uint32_t seed) {
  VerifyOptions options{.slots = slots, .seed = seed};
  options.branch = branch;
  return verify(built.schedules, built.problems, options).reason;
}

// By branches that hosts have chosen.
inline std::string fault_of(const BuiltCase& made, const std::vector<Branch>& branches, int slots,
                            uint32_t seed) {
  VerifyOptions options{.slots = slots, .seed = seed};
  options.branches = branches;
  return verify(made.schedules, made.problems, options).reason;
}

inline bool uses_window(const Step& step) {
  return (step.src.size != 0 && step.src.space == Space::kWindow) ||
         (step.dst.size != 0 && step.dst.space == Space::kWindow);
}

// Ranks of one host: types, operations and roots take turns.
inline VerifiedCase window_case(Collective collective, int ranks, uint64_t count, int draw) {
  VerifiedCase call{.collective = collective, .ranks = ranks, .count = count};
  call.root = has_root(collective) ? draw % ranks : 0;
  call.in_place = draw % 2 == 1 && collective != Collective::kAlltoallv;  // which has none
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8,
                                 DataType::kFloat64, DataType::kFloat8E4m3};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kProd,
                               ReduceOp::kPreMulSum};
  call.type = kTypes[draw / 5 % 5];
  call.op = kOps[draw % 5];
  return call;
}

// Ranks of several hosts.
inline VerifiedCase hosted_case(int ranks, uint64_t count, int draw) {
  VerifiedCase call{.algorithm = find_algorithm("hierarchical"), .ranks = ranks, .count = count};
  call.in_place = draw % 2 == 1;
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt32,
                                 DataType::kFloat64};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kPreMulSum,
                               ReduceOp::kMin};
  call.type = kTypes[draw % 4];
  call.op = kOps[draw % 5];
  return call;
}

}  // namespace banyan
