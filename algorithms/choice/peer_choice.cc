// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/peer_choice.h"

#include "algorithms/peers.h"

namespace banyan {
namespace {

bool is_named(const Rules& rules, int wanted, const Choice& choice) {
  return wanted >= 0 || (choice.rule >= 0 &&
                         rules[static_cast<size_t>(choice.rule)].source == RuleSource::kVariable);
}

}  // namespace

bool goes_by_peers(const Problem& problem, int ranks, const Rules& rules, int wanted,
                   const Choice& choice) {
  if (!may_go_by_peers(problem, ranks, choice.parameters)) return false;
  const bool may_be_direct = !is_named(rules, wanted, choice) && !choice.parameters.encodes();
  return may_be_direct || choice.algorithm == find_algorithm("direct");
}

Choice for_peers(const Problem& problem, int ranks, const Rules& rules, int wanted, Choice choice) {
  // That is asked for with hierarchical, of which one host is the lowest level.
  if (delegates(choice.parameters) && may_go_by_peers(problem, ranks, choice.parameters)) {
    choice.algorithm = find_algorithm("direct");
    return choice;
  }
  if (choice.parameters.encodes() || is_named(rules, wanted, choice) ||
      !goes_by_peers(problem, ranks, rules, wanted, choice))
    return choice;
  // Its blocks only move, so any algorithm leaves the same bits where windows are not used.
  if (problem.collective == Collective::kAlltoallv) return choice;
  return {find_algorithm("direct"), "memory of GPUs that all ranks of the host may read"};
}

Choice for_peers_inside(const Problem& problem, int ranks, const Hierarchy& levels, Choice choice) {
  if (choice.algorithm != find_algorithm("hierarchical") ||
      !may_go_by_peers_inside(problem, ranks, levels, choice.parameters))
    return choice;
  const bool sums_inside = problem.collective != Collective::kAlltoall;  // or gathers there
  if (sums_inside && choice.parameters.intra != Phase::kNccl)
    choice.parameters.intra = Phase::kDirect;
  return choice;
}

}  // namespace banyan
