// Steps by which ranks of one host agree on windows (peers.h) and tell each other what is there.
// Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/problem.h"

namespace banyan {

using StepIds = std::vector<uint32_t>;

inline StepIds all_of(StepIds left, const StepIds& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// The group are those who read each other's windows. Its places are what is told and heard.
class PeerTalk {
 public:
  PeerTalk(ScheduleBuilder& builder, const Problem& problem, const Group& group)
      : builder_(builder), problem_(problem), group_(group) {}

  // What all say of their windows, for buffers that are these, and which branch follows from it.
  // `delegates`: something else is to move what they give each other, so they need not read it.
  void agree(Slice input, Slice output, bool delegates = false);

  // The places behind the own one first.
  template <typename Visit>
  void for_others(Visit visit) const {
    for (int step = 1; step < group_.size(); ++step) visit(group_.wrap(group_.me + step));
  }
  // A step with windows. Returns its number.
  uint32_t add(Step step, const StepIds& after) {
    step.branch = Branch::kPeers;
    return builder_.repeat(step, after);
  }
  // The next of the ranks' delegates, which all of them begin in the same order.
  uint32_t delegate(Delegation delegation) {
    const Step step = builder_.delegate_step(std::move(delegation));
    last_delegate_ = {add(step, last_delegate_)};
    return last_delegate_.front();
  }
  void tell(int place, const StepIds& after) {
    add({.op = Op::kSend, .peer = group_.at(place), .src = {}, .src2 = {}, .dst = {}}, after);
  }
  uint32_t hear(int place) {
    return add({.op = Op::kRecv, .peer = group_.at(place), .src = {}, .src2 = {}, .dst = {}}, {});
  }
  void tell_all(const StepIds& after) {
    for_others([&](int place) { tell(place, after); });
  }
  // By place; that of the own one is not used.
  StepIds hear_all() {
    StepIds heard(static_cast<size_t>(group_.size()));
    for_others([&](int place) { heard[static_cast<size_t>(place)] = hear(place); });
    return heard;
  }
  // Without what is not used.
  StepIds of_others(const StepIds& heard) const {
    StepIds ids;
    for_others([&](int place) { ids.push_back(heard[static_cast<size_t>(place)]); });
    return ids;
  }
  // Nothing more is read or written there, by anybody.
  void withdraw() {
    builder_.fence();
    add({.op = Op::kWithdraw, .memory = MemoryKind::kDevice, .src = {}, .src2 = {}, .dst = {}}, {});
  }

 private:
  uint32_t lists(Slice input, Slice output);

  ScheduleBuilder& builder_;
  const Problem& problem_;
  const Group& group_;
  StepIds last_delegate_{};  // at most one
};

}  // namespace banyan
