// Says what comes before what in the schedules of all ranks, for tests that argue why a schedule is
// right by other means than the verifier's.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/schedule.h"
#include "tests/algorithms/mutated.h"

namespace banyan {

inline bool meets(Slice left, Slice right) {
  return left.space == right.space && left.size != 0 && right.size != 0 &&
         left.offset < right.end() && right.offset < left.end();
}

// They touch the same bytes, one of them writing.
inline bool conflict(const Step& left, const Step& right) {
  const auto hits = [](const Step& writer, const Step& other) {
    for (const Slice written : {writer.dst, writer.dst2})
      for (const Slice touched : {other.src, other.src2, other.dst, other.dst2})
        if (meets(written, touched)) return true;
    return false;
  };
  return hits(left, right) || hits(right, left);
}

// The steps of all ranks, and who comes before whom, through dependencies and messages.
class Causality {
 public:
  explicit Causality(const std::vector<Schedule>& schedules) : schedules_(schedules) {
    for (const Schedule& schedule : schedules) {
      first_.push_back(static_cast<uint32_t>(predecessors_.size()));
      for (auto each : edges_of(schedule)) {
        for (uint32_t& before : each) before += first_.back();
        predecessors_.push_back(std::move(each));
      }
    }
    for (size_t rank = 0; rank < schedules.size(); ++rank)
      for (const Port& port : schedules[rank].ports)
        if (!port.sending) add_messages(rank, port);
  }

  // Every step that writes output comes after a step of each rank, or is at that rank.
  bool agrees() const {
    for (size_t rank = 0; rank < schedules_.size(); ++rank)
      for (uint32_t step = 0; step < schedules_[rank].steps.size(); ++step) {
        const Step& each = schedules_[rank].steps[step];
        const auto is_output = [](Slice slice) {
          return slice.size != 0 && slice.space == Space::kOutput;
        };
        if (!is_output(each.dst) && !is_output(each.dst2)) continue;
        if (!comes_after_all(first_[rank] + step)) return false;
      }
    return true;
  }

  bool waits(size_t rank, uint32_t step, uint32_t before) const {
    return before_of(first_[rank] + step, rank)[first_[rank] + before];
  }

 private:
  void add_messages(size_t rank, const Port& port) {
    const Schedule& sender = schedules_[static_cast<size_t>(port.peer)];
    for (const Port& other : sender.ports) {
      if (!other.sending || other.peer != static_cast<int32_t>(rank)) continue;
      for (uint32_t index = 0; index < port.end - port.begin; ++index)
        predecessors_[first_[rank] + schedules_[rank].port_steps[port.begin + index]].push_back(
            first_[static_cast<size_t>(port.peer)] + sender.port_steps[other.begin + index]);
    }
  }

  bool is_of(uint32_t node, size_t rank) const {
    return node >= first_[rank] && (rank + 1 == first_.size() || node < first_[rank + 1]);
  }

  // All that comes before a node; through steps of one rank only, if one is given.
  std::vector<bool> before_of(uint32_t node, std::optional<size_t> rank) const {
    std::vector<bool> seen(predecessors_.size(), false);
    std::vector<uint32_t> open{node};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (const uint32_t before : predecessors_[at]) {
        if (seen[before] || (rank && !is_of(before, *rank))) continue;
        seen[before] = true;
        open.push_back(before);
      }
    }
    return seen;
  }

  bool comes_after_all(uint32_t node) const {
    const std::vector<bool> before = before_of(node, std::nullopt);
    for (size_t rank = 0; rank < first_.size(); ++rank) {
      bool heard = is_of(node, rank);
      for (uint32_t each = 0; each < before.size() && !heard; ++each)
        heard = before[each] && is_of(each, rank);
      if (!heard) return false;
    }
    return true;
  }

  const std::vector<Schedule>& schedules_;
  std::vector<uint32_t> first_;
  Edges predecessors_;
};

}  // namespace banyan
