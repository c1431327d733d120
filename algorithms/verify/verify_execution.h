// The verifier's execution: what each rank has, which steps are ready, and what is under way.
//
// A step is put into `ready_` when nothing keeps it from running, and nothing later can. So the
// draw is among all that could happen next; where those are many, among the latest. Between two
// ranks that exchange messages there is a channel with `slots` places. With no place, sender and
// receiver run as one.
//
// Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "algorithms/verify/verify_arithmetic.h"
#include "algorithms/verify/verify_knowledge.h"
#include "algorithms/verify/verify_parts.h"

namespace banyan {

inline constexpr uint32_t kNoStep = 0xffffffff;

struct RankStep {
  int rank;
  uint32_t step;
};

struct SymbolMessage {
  std::vector<Run> runs{};
  uint32_t sender = 0;      // the step, counted over all ranks; kNoStep: a message of no branch
  uint32_t next = kNoStep;  // in its channel, or of those that are free
};

// In a cache line of its own: among millions, each touch is a miss.
struct alignas(64) MessageChannel {
  int sender = -1;
  int receiver = -1;
  const uint32_t* send_steps = nullptr;
  const uint32_t* recv_steps = nullptr;
  uint32_t count = 0;  // of either
  uint32_t sent = 0;
  uint32_t received = 0;
  uint32_t send_step = kNoStep;  // the next one, when it waits for nothing more on its rank
  uint32_t recv_step = kNoStep;
  bool send_is_ready = false;  // the next one: in ready_, or taken from it and not yet run
  bool recv_is_ready = false;
  uint32_t waiting = 0;       // messages, `slots` at most
  uint32_t oldest = kNoStep;  // of them
  uint32_t newest = kNoStep;
};
static_assert(sizeof(MessageChannel) == 64);

// What changes of a step.
struct StepState {
  uint32_t waiting_for;
  int32_t channel = -1;  // -1: a local step
};

// Those who have come to the next delegate of the ranks of one host.
struct DelegateMeeting {
  std::vector<uint32_t> steps{};                       // by place; kNoStep: it has not come
  std::vector<std::vector<std::vector<Run>>> given{};  // by place, and by whom it is for
  size_t arrived = 0;
};

struct RankMemory {
  Layout layout;
  Memory scratch;
  Memory window;
  size_t done = 0;
};

class SymbolExecution {
 public:
  SymbolExecution(const VerifiedCall& call, std::vector<Layout>& layouts, Symbols& symbols,
                  const VerifyOptions& options);

  ScheduleFault run();

 private:
  const Step& step_at(RankStep at) const {
    return call_.schedules[static_cast<size_t>(at.rank)].steps[at.step];
  }
  RankMemory& state(int rank) { return states_[static_cast<size_t>(rank)]; }
  size_t global(RankStep at) const { return first_step_[static_cast<size_t>(at.rank)] + at.step; }

  // Where stands what the rank knows at its end: behind its steps.
  size_t end_of(int rank) const {
    return first_step_[static_cast<size_t>(rank)] +
           call_.schedules[static_cast<size_t>(rank)].steps.size();
  }

  StepState& node(RankStep at) { return nodes_[global(at)]; }

  void connect();
  void connect(int rank, const Port& port);
  uint32_t next_send(const MessageChannel& channel) const;
  uint32_t next_recv(const MessageChannel& channel) const;
  // Whoever has a result of such a call has heard from everybody.
  bool results_tell() const {
    return call_.collective == Collective::kAllreduce && call_.problems.front().count != 0;
  }
  int unheard(RankStep at, const std::vector<Run>& runs) const;
  void consider(RankStep at);
  void consider(MessageChannel& channel);
  RankStep draw();
  ScheduleFault run_step(RankStep at);
  // It is of the branch by which the call does not go.
  bool skips(RankStep at) const {
    const Branch branch = step_at(at).branch;
    return branch != Branch::kAlways && branch != branches_[static_cast<size_t>(at.rank)];
  }
  ScheduleFault run_alone(RankStep at);
  ScheduleFault run_local(RankStep at);
  ScheduleFault run_fold(RankStep at);
  ScheduleFault withdraw(RankStep at);
  ScheduleFault arrive(RankStep at);
  ScheduleFault end_meeting(const std::vector<int32_t>& ranks, DelegateMeeting& meeting);
  ScheduleFault touch_window(RankStep at, int window, Slice slice, bool write);
  uint32_t new_message();
  ScheduleFault run_send(MessageChannel& channel);
  ScheduleFault run_recv(MessageChannel& channel);
  void complete(RankStep at);
  ScheduleFault read(RankStep at, Slice slice, std::vector<Run>& runs);
  ScheduleFault read(RankStep at, int rank, Slice slice, std::vector<Run>& runs);
  ScheduleFault write(RankStep at, Slice slice, const std::vector<Run>& runs);
  ScheduleFault check_end();
  ScheduleFault check_finished() const;
  ScheduleFault stuck() const;

  const VerifiedCall& call_;
  SymbolArithmetic arithmetic_;
  size_t slots_;
  bool check_;
  bool by_content_;
  bool encodes_;                  // something goes by a codec
  std::vector<Branch> branches_;  // by rank
  std::mt19937 random_;
  std::vector<RankMemory> states_;
  std::vector<size_t> first_step_;  // of each rank, counted over all ranks
  std::vector<StepState> nodes_;    // by step, so counted
  std::vector<MessageChannel> channels_;
  std::vector<SymbolMessage> messages_;
  uint32_t free_ = kNoStep;  // of them
  std::vector<RankStep> ready_;
  std::vector<Run> left_, right_;            // of the step that runs
  std::map<int, DelegateMeeting> meetings_;  // by the first of the ranks that meet
  std::optional<Knowledge> knowledge_;       // where what a rank has does not tell
  std::optional<WindowOrder> order_;         // where windows are used
};

}  // namespace banyan
