// Runs the schedules of all ranks, one step at a time, in an order drawn from a seed.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "algorithms/verify/verify_execution.h"

namespace banyan {
namespace {

bool is_synchronisation(Collective collective) {
  return collective == Collective::kBarrier || collective == Collective::kFinalize ||
         collective == Collective::kSplit;
}

}  // namespace

SymbolExecution::SymbolExecution(const VerifiedCall& call, std::vector<Layout>& layouts,
                                 Symbols& symbols, const VerifyOptions& options)
    : call_(call),
      arithmetic_(call, symbols),
      slots_(static_cast<size_t>(options.slots)),
      check_(call.problems.front().check),
      by_content_(options.by_content),
      encodes_(std::any_of(call.schedules.begin(), call.schedules.end(),
                           [](const Schedule& schedule) { return schedule.slots != 0; })),
      branches_(options.branches.begin(), options.branches.end()),
      random_(options.seed),
      states_(static_cast<size_t>(call.ranks)) {
  if (branches_.empty()) branches_.assign(static_cast<size_t>(call.ranks), options.branch);
  for (int rank = 0; rank < call.ranks; ++rank) {
    RankMemory& mine = state(rank);
    mine.layout = std::move(layouts[static_cast<size_t>(rank)]);
    first_step_.push_back(nodes_.size());
    for (const uint32_t count : call.schedules[static_cast<size_t>(rank)].dependency_count)
      nodes_.push_back({count});
    nodes_.push_back({0});  // what the rank knows at its end
  }
  connect();
  if (std::find(branches_.begin(), branches_.end(), Branch::kPeers) != branches_.end())
    order_.emplace(nodes_.size());
  const bool synchronises = is_synchronisation(call.collective);
  if (!synchronises && (!check_ || results_tell())) return;
  knowledge_.emplace(static_cast<size_t>(call.ranks), nodes_.size());
  for (int rank = 0; rank < call.ranks; ++rank)
    for (uint32_t step = 0; step <= call.schedules[static_cast<size_t>(rank)].steps.size(); ++step)
      knowledge_->add(global({rank, step}), rank);
}

// A channel for each sending port; whoever receives finds it at the first message there.
void SymbolExecution::connect() {
  for (const bool sending : {true, false})
    for (int rank = 0; rank < call_.ranks; ++rank)
      for (const Port& port : call_.schedules[static_cast<size_t>(rank)].ports)
        if (port.sending == sending && port.begin != port.end) connect(rank, port);
}

void SymbolExecution::connect(int rank, const Port& port) {
  const uint32_t* const steps = &call_.schedules[static_cast<size_t>(rank)].port_steps[port.begin];
  const uint32_t count = port.end - port.begin;
  auto channel = static_cast<int32_t>(channels_.size());
  if (port.sending) {
    channels_.push_back(
        {.sender = rank, .receiver = port.peer, .send_steps = steps, .count = count});
  } else {
    const Schedule& theirs = call_.schedules[static_cast<size_t>(port.peer)];
    const Port* partner = find_port(theirs, rank, true);
    channel = node({port.peer, theirs.port_steps[partner->begin]}).channel;
    channels_[static_cast<size_t>(channel)].recv_steps = steps;
  }
  for (uint32_t index = 0; index < count; ++index) node({rank, steps[index]}).channel = channel;
}

uint32_t SymbolExecution::next_send(const MessageChannel& channel) const {
  if (channel.sent == channel.count) return kNoStep;
  const uint32_t step = channel.send_steps[channel.sent];
  return nodes_[global({channel.sender, step})].waiting_for == 0 ? step : kNoStep;
}

uint32_t SymbolExecution::next_recv(const MessageChannel& channel) const {
  if (channel.received == channel.count) return kNoStep;
  const uint32_t step = channel.recv_steps[channel.received];
  return nodes_[global({channel.receiver, step})].waiting_for == 0 ? step : kNoStep;
}

// What it waited for is done.
void SymbolExecution::consider(RankStep at) {
  const int32_t index = node(at).channel;
  if (index < 0) {
    ready_.push_back(at);
    return;
  }
  MessageChannel& channel = channels_[static_cast<size_t>(index)];
  if (channel.sender == at.rank)
    channel.send_step = next_send(channel);
  else
    channel.recv_step = next_recv(channel);
  consider(channel);
}

void SymbolExecution::consider(MessageChannel& channel) {
  const uint32_t send = channel.send_step;
  const uint32_t recv = channel.recv_step;
  if (slots_ == 0) {
    if (send == kNoStep || recv == kNoStep || channel.recv_is_ready) return;
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
    return;
  }
  if (send != kNoStep && !channel.send_is_ready && channel.waiting < slots_) {
    channel.send_is_ready = true;
    ready_.push_back({channel.sender, send});
  }
  if (recv != kNoStep && !channel.recv_is_ready && channel.waiting > 0) {
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
  }
}

// Among thousands it takes one of the latest, whose ranks the cache still has.
RankStep SymbolExecution::draw() {
  constexpr size_t kMany = 4096;
  constexpr size_t kLatest = 8;
  const size_t window = ready_.size() < kMany ? ready_.size() : kLatest;
  const size_t index = ready_.size() - 1 - random_() % window;
  const RankStep drawn = ready_[index];
  ready_[index] = ready_.back();
  ready_.pop_back();
  return drawn;
}

// One that has been received, with the memory of its runs, if there is one.
uint32_t SymbolExecution::new_message() {
  if (free_ == kNoStep) {
    messages_.emplace_back();
    return static_cast<uint32_t>(messages_.size()) - 1;
  }
  const uint32_t message = free_;
  free_ = std::exchange(messages_[message].next, kNoStep);
  return message;
}

ScheduleFault SymbolExecution::run_send(MessageChannel& channel) {
  const RankStep at{channel.sender, channel.send_step};
  const uint32_t message = new_message();
  messages_[message].sender = skips(at) ? kNoStep : static_cast<uint32_t>(global(at));
  messages_[message].runs.clear();
  ScheduleFault fault;
  if (!skips(at)) fault = read(at, step_at(at).src, messages_[message].runs);
  if (!fault.empty()) return fault;
  (channel.waiting == 0 ? channel.oldest : messages_[channel.newest].next) = message;
  channel.newest = message;
  ++channel.waiting;
  channel.send_is_ready = false;
  ++channel.sent;
  channel.send_step = next_send(channel);
  complete(at);
  return {};
}

ScheduleFault SymbolExecution::run_recv(MessageChannel& channel) {
  const RankStep at{channel.receiver, channel.recv_step};
  const Step& step = step_at(at);
  const uint32_t index = channel.oldest;
  SymbolMessage& message = messages_[index];
  channel.oldest = message.next;
  --channel.waiting;
  if (skips(at) != (message.sender == kNoStep))
    return place_of(call_, at.rank, at.step) + " meets a message of the other branch";
  if (!skips(at)) {
    if (knowledge_) knowledge_->join(global(at), message.sender);
    if (order_) order_->join(global(at), message.sender);
    left_.clear();
    ScheduleFault fault = step.op == Op::kRecv ? ScheduleFault{} : read(at, step.src, left_);
    if (!fault.empty()) return fault;
    fault = arithmetic_.apply(step, at.rank, left_, message.runs);
    if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
    fault = write(at, step.dst, left_);
    if (!fault.empty()) return fault;
  }
  message.next = std::exchange(free_, index);
  channel.recv_is_ready = false;
  ++channel.received;
  channel.recv_step = next_recv(channel);
  complete(at);
  return {};
}

void SymbolExecution::complete(RankStep at) {
  RankMemory& mine = state(at.rank);
  const Schedule& schedule = call_.schedules[static_cast<size_t>(at.rank)];
  ++mine.done;
  if (knowledge_) knowledge_->join(end_of(at.rank), global(at));
  for (const uint32_t next : schedule.successors_of(at.step)) {
    if (knowledge_) knowledge_->join(global({at.rank, next}), global(at));
    if (order_) order_->join(global({at.rank, next}), global(at));
    if (--node({at.rank, next}).waiting_for == 0) consider(RankStep{at.rank, next});
  }
}

ScheduleFault SymbolExecution::run_step(RankStep at) {
  const int32_t index = node(at).channel;
  if (index < 0) return run_alone(at);
  MessageChannel& channel = channels_[static_cast<size_t>(index)];
  const bool receives = is_receiving(step_at(at).op);
  ScheduleFault fault;
  if (!receives || slots_ == 0) fault = run_send(channel);
  if (fault.empty() && receives) fault = run_recv(channel);
  if (fault.empty()) consider(channel);
  return fault;
}

ScheduleFault SymbolExecution::stuck() const {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const Schedule& schedule = call_.schedules[static_cast<size_t>(rank)];
    const RankMemory& mine = states_[static_cast<size_t>(rank)];
    if (mine.done == schedule.steps.size()) continue;
    for (const Port& port : schedule.ports) {
      if (port.begin == port.end) continue;
      const int32_t index = nodes_[global({rank, schedule.port_steps[port.begin]})].channel;
      const MessageChannel& channel = channels_[static_cast<size_t>(index)];
      const uint32_t posted = port.sending ? channel.sent : channel.received;
      if (posted < channel.count)
        return place_of(call_, rank, schedule.port_steps[port.begin + posted]) +
               " never completes: nothing can run any more";
    }
    return "rank " + std::to_string(rank) + " never completes: nothing can run any more";
  }
  return {};
}

// Compares each rank's output with what is expected, and the results of all ranks with each other.
ScheduleFault SymbolExecution::check_end() {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const RankMemory& mine = state(rank);
    const int missing = knowledge_ ? knowledge_->missing(end_of(rank)) : -1;
    if (missing >= 0)
      return "rank " + std::to_string(rank) + " ends without having heard from rank " +
             std::to_string(missing);
    ScheduleFault fault =
        arithmetic_.compare(mine.layout.output.runs(), mine.layout.expected.runs());
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
    if (call_.collective != Collective::kAllreduce || rank == 0 || (by_content_ && !encodes_))
      continue;
    fault = arithmetic_.same_order(mine.layout.output.runs(), state(0).layout.output.runs());
    if (!fault.empty()) return "ranks 0 and " + std::to_string(rank) + ": " + fault;
  }
  ScheduleFault fault = arithmetic_.check_kept();
  return fault.empty() && by_content_ ? check_finished() : fault;
}

// Each element's sum came out once at least, so if they are as many as the elements, once each; all
// ranks then have copies of it. By codecs, they have what has become of it in the same way.
ScheduleFault SymbolExecution::check_finished() const {
  if (call_.collective != Collective::kAllreduce || call_.ranks == 1) return {};
  const uint64_t once = call_.problems.front().count * size_of(call_.accumulator);
  if (arithmetic_.finished() == once) return {};
  return std::to_string(arithmetic_.finished()) + " bytes of sums are finished instead of " +
         std::to_string(once) + ": some by more than one rank";
}

ScheduleFault SymbolExecution::run() {
  for (int rank = 0; rank < call_.ranks; ++rank)
    for (uint32_t step = 0; step < call_.schedules[static_cast<size_t>(rank)].steps.size(); ++step)
      if (call_.schedules[static_cast<size_t>(rank)].dependency_count[step] == 0)
        consider(RankStep{rank, step});
  while (!ready_.empty()) {
    ScheduleFault fault = run_step(draw());
    if (!fault.empty()) return fault;
  }
  ScheduleFault fault = stuck();
  return fault.empty() ? check_end() : fault;
}

ScheduleFault execute(const VerifiedCall& call, std::vector<Layout> layouts, Symbols& symbols,
                      const VerifyOptions& options) {
  return SymbolExecution(call, layouts, symbols, options).run();
}

}  // namespace banyan
