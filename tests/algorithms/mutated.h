// Schedules that differ from a right one in a step, for the tests of what the verifier catches.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

using Edges = std::vector<std::vector<uint32_t>>;

inline Edges edges_of(const Schedule& schedule) {
  Edges edges(schedule.steps.size());
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    for (const uint32_t next : schedule.successors_of(step)) edges[next].push_back(step);
  return edges;
}

inline bool has_peer(const Step& step) {
  return is_transfer(step.op);
}

// A schedule like another, from its steps and what each of them waits for.
inline Schedule relinked(std::vector<Step> steps, const Edges& predecessors,
                         const Schedule& original) {
  Schedule schedule;
  schedule.steps = std::move(steps);
  schedule.scratch_size = original.scratch_size;
  schedule.slots = original.slots;
  schedule.lefts = original.lefts;
  schedule.left_count = original.left_count;
  schedule.window_ranks = original.window_ranks;
  schedule.delegations = original.delegations;
  const size_t count = schedule.steps.size();
  Edges successors(count);
  std::map<std::pair<int32_t, bool>, std::vector<uint32_t>> ports;
  for (uint32_t step = 0; step < count; ++step) {
    schedule.dependency_count.push_back(static_cast<uint32_t>(predecessors[step].size()));
    for (const uint32_t before : predecessors[step]) successors[before].push_back(step);
    const Step& each = schedule.steps[step];
    if (has_peer(each)) ports[{each.peer, each.op == Op::kSend}].push_back(step);
  }
  for (const auto& each : successors) {
    schedule.successors_begin.push_back(static_cast<uint32_t>(schedule.successors.size()));
    schedule.successors.insert(schedule.successors.end(), each.begin(), each.end());
  }
  schedule.successors_begin.push_back(static_cast<uint32_t>(schedule.successors.size()));
  schedule.port_of.assign(count, -1);
  for (const auto& [key, on_port] : ports) {
    Port port{key.first, key.second, static_cast<uint32_t>(schedule.port_steps.size()), 0};
    for (const uint32_t step : on_port) {
      schedule.port_of[step] = static_cast<int32_t>(schedule.ports.size());
      schedule.port_steps.push_back(step);
    }
    port.end = static_cast<uint32_t>(schedule.port_steps.size());
    schedule.ports.push_back(port);
  }
  return schedule;
}

// What the mutated step waited for, the steps that waited for it wait for instead.
inline Schedule without_step(const Schedule& schedule, uint32_t dropped) {
  Edges edges = edges_of(schedule);
  std::vector<Step> steps = schedule.steps;
  for (auto& each : edges) {
    const auto found = std::find(each.begin(), each.end(), dropped);
    if (found == each.end()) continue;
    each.erase(found);
    each.insert(each.end(), edges[dropped].begin(), edges[dropped].end());
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
  }
  steps.erase(steps.begin() + dropped);
  edges.erase(edges.begin() + dropped);
  for (auto& each : edges)
    for (uint32_t& before : each) before -= before > dropped ? 1 : 0;
  return relinked(std::move(steps), edges, schedule);
}

// The repetition comes right after the step, and before all that wait for it.
inline Schedule with_repeated(const Schedule& schedule, uint32_t repeated) {
  Edges edges = edges_of(schedule);
  std::vector<Step> steps = schedule.steps;
  for (auto& each : edges) {
    for (uint32_t& before : each) before += before > repeated ? 1 : 0;
    if (std::find(each.begin(), each.end(), repeated) != each.end()) each.push_back(repeated + 1);
  }
  steps.insert(steps.begin() + repeated + 1, steps[repeated]);
  edges.insert(edges.begin() + repeated + 1, {repeated});
  return relinked(std::move(steps), edges, schedule);
}

inline Schedule with_step(const Schedule& schedule, uint32_t at, const Step& step) {
  std::vector<Step> steps = schedule.steps;
  steps[at] = step;
  return relinked(std::move(steps), edges_of(schedule), schedule);
}

inline Schedule without_edge(const Schedule& schedule, uint32_t before, uint32_t after) {
  Edges edges = edges_of(schedule);
  std::erase(edges[after], before);
  return relinked(schedule.steps, edges, schedule);
}

}  // namespace banyan
