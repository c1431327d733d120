// Pairs sends with receives and walks the steps of all ranks in the order they can run.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/messages.h"

#include <algorithm>
#include <unordered_map>

namespace banyan {

namespace {

const Port* find_port(const Schedule& schedule, int peer, bool sending) {
  const auto found =
      std::find_if(schedule.ports.begin(), schedule.ports.end(),
                   [&](const Port& port) { return port.peer == peer && port.sending == sending; });
  return found == schedule.ports.end() ? nullptr : &*found;
}

std::span<const uint32_t> steps_of(const Schedule& schedule, const Port& port) {
  return std::span(schedule.port_steps).subspan(port.begin, port.end - port.begin);
}

}  // namespace

std::vector<Message> match_messages(std::span<const Schedule> schedules,
                                    std::span<const int> ranks) {
  const size_t count = std::min(schedules.size(), ranks.size());
  std::unordered_map<int, size_t> place;
  for (size_t i = 0; i < count; ++i) place.emplace(ranks[i], i);

  std::vector<Message> messages;
  for (size_t from = 0; from < count; ++from) {
    for (const Port& port : schedules[from].ports) {
      const auto to = place.find(port.peer);
      if (!port.sending || to == place.end()) continue;
      const Schedule& receiver = schedules[to->second];
      const Port* opposite = find_port(receiver, ranks[from], false);
      if (opposite == nullptr) continue;
      const auto sends = steps_of(schedules[from], port);
      const auto receives = steps_of(receiver, *opposite);
      for (size_t n = 0; n < std::min(sends.size(), receives.size()); ++n)
        messages.push_back({{from, sends[n]}, {to->second, receives[n]}});
    }
  }
  return messages;
}

std::vector<std::vector<uint32_t>> depths_of(std::span<const Schedule> schedules,
                                             std::span<const Message> messages,
                                             EdgeWeights weights) {
  std::vector<std::vector<uint32_t>> depths;
  std::vector<std::vector<uint32_t>> waiting;     // for that many steps
  std::vector<std::vector<const Message*>> sent;  // by the step, if it sends
  for (const Schedule& schedule : schedules) {
    depths.emplace_back(schedule.steps.size(), 0);
    waiting.push_back(schedule.dependency_count);
    sent.emplace_back(schedule.steps.size(), nullptr);
  }
  for (const Message& message : messages) {
    ++waiting[message.to.schedule][message.to.step];
    sent[message.from.schedule][message.from.step] = &message;
  }

  std::vector<StepAt> ready;
  for (size_t i = 0; i < schedules.size(); ++i)
    for (uint32_t step = 0; step < schedules[i].steps.size(); ++step)
      if (waiting[i][step] == 0) ready.push_back({i, step});

  const auto reach = [&](StepAt at, uint32_t depth) {
    uint32_t& known = depths[at.schedule][at.step];
    known = std::max(known, depth);
    if (--waiting[at.schedule][at.step] == 0) ready.push_back(at);
  };
  while (!ready.empty()) {
    const StepAt at = ready.back();
    ready.pop_back();
    const uint32_t depth = depths[at.schedule][at.step];
    for (const uint32_t next : schedules[at.schedule].successors_of(at.step))
      reach({at.schedule, next}, depth + weights.dependency);
    if (const Message* message = sent[at.schedule][at.step]; message != nullptr)
      reach(message->to, depth + weights.message);
  }
  return depths;
}

}  // namespace banyan
