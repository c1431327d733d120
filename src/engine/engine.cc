// SPDX-License-Identifier: Apache-2.0

#include "src/engine/engine.h"

#include <algorithm>
#include <utility>

#include "src/engine/trace.h"
#include "transports/quick_lane.h"

namespace banyan {
Execution::Execution(const Schedule& schedule)
    : schedule_(schedule),
      waiting_for_(schedule.steps.size()),
      finished_(schedule.steps.size()),
      turns_(schedule.ports.size()),
      usage_(usage_of(schedule)) {
  ready_.reserve(schedule.steps.size());
}

Engine::Engine(std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
               const Kernels& kernels)
    : transports_(std::move(transports)),
      routes_(std::move(routes)),
      kernels_(kernels),
      ports_(routes_.size() * 2 * kLaneCount) {
  for (size_t peer = 0; peer < routes_.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    quick_lanes_.push_back(
        routes_[peer] < 0 ? nullptr : transport_to(rank).quick_lane(rank, Lane::kCollective));
  }
  for (const auto& transport : transports_) {
    cores_ = std::max(cores_, transport->cores());
  }
  postable_.reserve(ports_.size());
  retry_.reserve(ports_.size());
}

void Engine::tell(const Trace& trace) {
  trace_ = &trace;
  std::fill(quick_lanes_.begin(), quick_lanes_.end(), nullptr);
}

void Engine::list(size_t port) {
  PortQueue& queue = ports_[port];
  if (queue.listed) return;
  queue.listed = true;
  postable_.push_back(static_cast<uint32_t>(port));
}

// Takes a step whose dependencies are met: local ones go on the stack, messages to their port when
// it is their turn there.
void Engine::offer(Execution& execution, uint32_t step) {
  const Schedule& schedule = execution.schedule_;
  if (!is_transfer(schedule.steps[step].op)) {
    if (execution.ready_.empty()) with_local_work_.push_back(&execution);
    execution.ready_.push_back(step);
    return;
  }
  const auto local = static_cast<size_t>(schedule.port_of[step]);
  const Port& port = schedule.ports[local];
  const Execution::Turn& turn = execution.turns_[local];
  const size_t index = port_index(port.peer, port.sending, execution.lane_);
  if (ports_[index].head == &turn && schedule.port_steps[turn.cursor] == step) list(index);
}

// The turns of this operation at its ports, behind those of the operations started before.
void Engine::queue_messages(Execution& execution, uint32_t steps_done) {
  const Schedule& schedule = execution.schedule_;
  for (size_t local = 0; local < schedule.ports.size(); ++local) {
    const Port& port = schedule.ports[local];
    uint32_t cursor = port.begin;
    while (cursor < port.end && schedule.port_steps[cursor] < steps_done) ++cursor;
    if (cursor == port.end) continue;
    Execution::Turn& turn = execution.turns_[local];
    turn = {&execution, nullptr, cursor, port.end};
    PortQueue& queue = ports_[port_index(port.peer, port.sending, execution.lane_)];
    (queue.head == nullptr ? queue.head : queue.tail->next) = &turn;
    queue.tail = &turn;
  }
}

void Engine::make_room(size_t executions) {
  running_.reserve(running_.size() + executions);
  with_local_work_.reserve(running_.size() + executions);
}

void Engine::start(Execution& execution, const Spaces& spaces, const Arithmetic& arithmetic,
                   const Envelope& envelope, Lane lane, uint32_t steps_done, bool sent) {
  const Schedule& schedule = execution.schedule_;
  execution.spaces_ = spaces;
  execution.arithmetic_ = arithmetic;
  execution.envelope_ = envelope;
  execution.lane_ = lane;
  execution.sent_ = sent;
  execution.remaining_ = schedule.steps.size() - steps_done;
  execution.cancelled_ = false;
  execution.ready_.clear();
  execution.waiting_for_ = schedule.dependency_count;
  std::fill(execution.finished_.begin(), execution.finished_.end(), uint8_t{0});
  for (uint32_t step = 0; step < steps_done; ++step) {
    execution.finished_[step] = 1;
    for (const uint32_t next : schedule.successors_of(step)) --execution.waiting_for_[next];
  }
  if (execution.remaining_ == 0) {
    if (execution.hook != nullptr) execution.hook->ended(execution);
    return;
  }

  size_t slot = 0;
  while (slot < running_.size() && running_[slot] != nullptr) ++slot;
  if (slot == running_.size()) {
    running_.push_back(nullptr);
    with_local_work_.reserve(running_.size());
  }
  running_[slot] = &execution;
  execution.slot_ = static_cast<uint32_t>(slot);
  execution.order_ = started_++;
  ++running_count_;

  queue_messages(execution, steps_done);
  // Pushed last to first, because the stack of local steps then starts with the first one.
  for (size_t step = schedule.steps.size(); step-- > steps_done;)
    if (execution.waiting_for_[step] == 0) offer(execution, static_cast<uint32_t>(step));
}

void Engine::complete(Execution& execution, uint32_t step) {
  --execution.remaining_;
  execution.finished_[step] = 1;
  for (const uint32_t next : execution.schedule_.successors_of(step))
    if (--execution.waiting_for_[next] == 0) offer(execution, next);
  if (execution.remaining_ == 0) {
    running_[execution.slot_] = nullptr;
    --running_count_;
    if (execution.hook != nullptr) execution.hook->ended(execution);
  }
}

bool Engine::run_local() {
  bool moved = false;
  while (!with_local_work_.empty()) {
    Execution& execution = *with_local_work_.back();
    const uint32_t step = execution.ready_.back();
    execution.ready_.pop_back();
    if (execution.ready_.empty()) with_local_work_.pop_back();
    run_local_step(execution.schedule_.steps[step], execution.spaces_, execution.arithmetic_,
                   kernels_);
    complete(execution, step);
    moved = true;
  }
  return moved;
}

Transfer Engine::transfer_for(const Execution& execution, uint32_t step) const {
  const Step& what = execution.schedule_.steps[step];
  Transfer transfer = transfer_of(what, execution.arithmetic_.op, execution.envelope_, kernels_);
  place(transfer, what, execution.spaces_);
  transfer.lane = execution.lane_;
  transfer.usage = usage_of(execution.schedule_, step, execution.usage_);
  transfer.cookie = (uint64_t{execution.slot_} << 32) | step;
  return transfer;
}

// A small message that can leave, or has come, needs no queue of its transport.
bool Engine::moves_at_once(const Transfer& transfer) const {
  QuickLane* quick = quick_lanes_[static_cast<size_t>(transfer.peer)];
  if (quick == nullptr || transfer.lane != Lane::kCollective || !quick->takes(transfer))
    return false;
  return transfer.direction == Direction::kSend
             ? quick->send(transfer.memory, transfer.envelope) == QuickLane::Departure::kSent
             : quick->receive(transfer) == QuickLane::Arrival::kTaken;
}

// Posts what may be posted at the port's head; true: something was. A busy port is listed again.
bool Engine::post_port(size_t port, Trouble& trouble) {
  PortQueue& queue = ports_[port];
  bool moved = false;
  while (queue.head != nullptr) {
    Execution::Turn& turn = *queue.head;
    Execution& execution = *turn.execution;
    const uint32_t step = execution.schedule_.port_steps[turn.cursor];
    if (execution.waiting_for_[step] != 0) return moved;
    const Transfer transfer = transfer_for(execution, step);
    const bool done = moves_at_once(transfer);
    if (!done) {
      Transport& transport = transport_to(transfer.peer);
      const Status status =
          execution.sent_ ? transport.report_delivery(transfer.peer, transfer.lane, transfer.cookie)
                          : transport.post(transfer);
      if (status.code() == Code::kBusy) {
        retry_.push_back(static_cast<uint32_t>(port));
        return moved;
      }
      if (!status.ok()) {
        trouble = {status.code(), transfer.peer, {}, {}, std::string(status.message())};
        return moved;
      }
    }
    moved = true;
    if (++turn.cursor == turn.end) {
      queue.head = turn.next;
      if (queue.head == nullptr) queue.tail = nullptr;
    }
    if (done) complete(execution, step);
  }
  return moved;
}

bool Engine::post_all(Trouble& trouble) {
  bool moved = false;
  while (!postable_.empty()) {
    const uint32_t port = postable_.back();
    postable_.pop_back();
    ports_[port].listed = false;
    moved = post_port(port, trouble) || moved;
    if (trouble) break;
  }
  for (const uint32_t port : retry_) list(port);
  retry_.clear();
  return moved;
}

Result<bool> Engine::collect(Trouble& trouble) {
  bool moved = false;
  for (const auto& transport : transports_) {
    const Result<size_t> count = transport->poll(completions_);
    if (!count.ok()) return count.status();
    for (size_t i = 0; i < *count; ++i) {
      const Completion& completion = completions_[i];
      Execution* execution = running_[completion.cookie >> 32];
      if (execution == nullptr) continue;
      const auto step = static_cast<uint32_t>(completion.cookie);
      moved = true;
      if (completion.code == Code::kOk) {
        if (trace_ != nullptr && trace_->messages())
          trace_->moved(transfer_for(*execution, step), transport->name(), completion.passage);
        complete(*execution, step);
        continue;
      }
      if (trouble) continue;
      const int peer = execution->schedule_.steps[step].peer;
      trouble = {completion.code, peer, transfer_for(*execution, step).envelope, completion.seen,
                 transport->why_failed(peer, execution->lane_)};
    }
    moved = transport->moved() || moved;
  }
  return moved;
}

Result<bool> Engine::progress(Trouble& trouble) {
  bool moved = run_local();
  moved = post_all(trouble) || moved;
  if (trouble) return moved;
  Result<bool> collected = collect(trouble);
  if (!collected.ok() || trouble) return collected;
  return run_local() || *collected || moved;
}

void Engine::cancel() {
  if (running_count_ == 0) return;
  for (const auto& transport : transports_) transport->abandon();
  for (PortQueue& queue : ports_) queue = {};
  postable_.clear();
  with_local_work_.clear();
  running_count_ = 0;
  for (Execution*& running : running_) {
    Execution* execution = std::exchange(running, nullptr);
    if (execution == nullptr) continue;
    execution->remaining_ = 0;
    execution->cancelled_ = true;
    if (execution->hook != nullptr) execution->hook->ended(*execution);
  }
}

Trouble Engine::find_other_call() const {
  for (const Execution* execution : running_) {
    if (execution == nullptr || execution->lane_ != Lane::kCollective) continue;
    const Envelope& mine = execution->envelope_;
    for (size_t peer = 0; peer < routes_.size(); ++peer) {
      if (routes_[peer] < 0) continue;
      const auto seen = transports_[static_cast<size_t>(routes_[peer])]->peek(
          static_cast<int>(peer), Lane::kCollective);
      if (seen && seen->epoch == mine.epoch && seen->call == mine.call &&
          !(seen->signature == mine.signature))
        return {Code::kMismatch, static_cast<int>(peer), mine, *seen, ""};
    }
  }
  return {};
}

bool Engine::has_call_before(uint32_t call) const {
  return std::any_of(running_.begin(), running_.end(), [&](const Execution* execution) {
    return execution != nullptr && execution->lane_ == Lane::kCollective &&
           execution->envelope_.call < call;
  });
}

TimePoint Engine::deadline() const {
  TimePoint earliest = TimePoint::max();
  for (const Execution* execution : running_)
    if (execution != nullptr) earliest = std::min(earliest, execution->deadline);
  return earliest;
}

const Execution* Engine::most_urgent() const {
  const auto due = [](const Execution& execution) {
    return std::pair(execution.deadline, execution.order_);
  };
  const Execution* first = nullptr;
  for (const Execution* execution : running_)
    if (execution != nullptr && (first == nullptr || due(*execution) < due(*first)))
      first = execution;
  return first;
}

int Engine::waiting_for() const {
  const Execution* first = most_urgent();
  if (first == nullptr) return -1;
  const Schedule& schedule = first->schedule_;
  int sending_to = -1;
  for (size_t step = 0; step < schedule.steps.size(); ++step) {
    const Op op = schedule.steps[step].op;
    if (!is_transfer(op) || first->waiting_for_[step] != 0 || first->finished_[step] != 0) continue;
    if (op != Op::kSend) return schedule.steps[step].peer;
    if (sending_to < 0) sending_to = schedule.steps[step].peer;
  }
  return sending_to;
}

}  // namespace banyan
