// SPDX-License-Identifier: Apache-2.0

#include "src/engine/engine.h"

#include <algorithm>
#include <utility>

#include "src/engine/trace.h"
#include "transports/quick_lane.h"

namespace banyan {
namespace {

// A turn runs local steps until they have read and written so much.
constexpr uint64_t kTurnBytes = 512 << 10;

uint64_t cost_of(const Step& step) {
  return step.src.size + step.src2.size + step.dst.size + step.dst2.size;
}

// Whose message a wire slot has; -1: it is this rank's own.
int sender_to(const Schedule& schedule, uint32_t slot) {
  const auto found =
      std::find_if(schedule.steps.begin(), schedule.steps.end(),
                   [&](const Step& step) { return step.op == Op::kRecv && step.dst.slot == slot; });
  return found == schedule.steps.end() ? -1 : found->peer;
}

}  // namespace

Execution::Execution(const Schedule& schedule)
    : schedule_(schedule),
      waiting_for_(schedule.steps.size()),
      finished_(schedule.steps.size()),
      turns_(schedule.ports.size()),
      message_bytes_(schedule.slots + size_t{1}),
      plain_(std::all_of(schedule.steps.begin(), schedule.steps.end(), is_plain)),
      usage_(usage_of(schedule)) {
  ready_.reserve(schedule.steps.size());
}

Engine::Engine(std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
               const Kernels& kernels)
    : transports_(std::move(transports)),
      host_(kernels),
      kernels_(kernels),
      ports_(routes.size() * 2 * kLaneCount) {
  for (size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    const bool device = static_cast<MemoryKind>(kind) == MemoryKind::kDevice;
    routes_[kind] = device ? std::vector<int>(routes.size(), -1) : routes;
    work_[kind] = device ? nullptr : &host_;
    served_[kind] = finds_all(static_cast<MemoryKind>(kind));
  }
  for (size_t peer = 0; peer < routes.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    quick_lanes_.push_back(
        routes[peer] < 0 ? nullptr : transport_to(rank).quick_lane(rank, Lane::kCollective));
  }
  for (const auto& transport : transports_) {
    cores_ = std::max(cores_, transport->cores());
  }
  postable_.reserve(ports_.size());
  retry_.reserve(ports_.size());
}

Engine::~Engine() = default;

void Engine::serve(MemoryKind kind, std::unique_ptr<LocalWork> work, std::vector<int> routes) {
  const auto index = static_cast<size_t>(kind);
  work_[index] = work.get();
  only_kernels_ = false;
  other_work_.push_back(std::move(work));
  routes_[index] = std::move(routes);
  served_[index] = finds_all(kind);
  if (kind == MemoryKind::kHost) std::fill(quick_lanes_.begin(), quick_lanes_.end(), nullptr);
}

// Who runs steps on such memory, and a route for it to each peer.
bool Engine::finds_all(MemoryKind kind) const {
  const auto index = static_cast<size_t>(kind);
  if (work_[index] == nullptr) return false;
  const auto reaches = [&](size_t peer) {
    if (routes_.front()[peer] < 0) return true;  // this rank
    const int route = routes_[index][peer];
    return route >= 0 && transports_[static_cast<size_t>(route)]->carries_from(kind) == 0;
  };
  for (size_t peer = 0; peer < routes_[index].size(); ++peer)
    if (!reaches(peer)) return false;
  return true;
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

void Engine::queue_local_work(Execution& execution) {
  execution.next_with_work_ = nullptr;
  (first_with_work_ == nullptr ? first_with_work_ : last_with_work_->next_with_work_) = &execution;
  last_with_work_ = &execution;
}

// Takes a step whose dependencies are met: local ones go to the end of their queue, messages to
// their port when it is their turn there.
void Engine::offer(Execution& execution, uint32_t step) {
  const Schedule& schedule = execution.schedule_;
  if (!is_transfer(schedule.steps[step].op)) {
    if (!execution.has_local_work()) queue_local_work(execution);
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
  gated_.reserve(running_.size() + executions);
}

void Engine::start(Execution& execution, const Spaces& spaces, const Arithmetic& arithmetic,
                   const Envelope& envelope, Lane lane, uint32_t steps_done, bool sent) {
  const Schedule& schedule = execution.schedule_;
  execution.spaces_ = spaces;
  execution.arithmetic_ = arithmetic;
  execution.envelope_ = envelope;
  execution.lane_ = lane;
  execution.sent_ = sent;
  execution.codec_time_ = {};
  execution.remaining_ = schedule.steps.size() - steps_done;
  execution.cancelled_ = false;
  execution.branch_ = Branch::kAlways;
  execution.ready_.clear();
  execution.next_ready_ = 0;
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
    gated_.reserve(running_.size());
  }
  running_[slot] = &execution;
  execution.slot_ = static_cast<uint32_t>(slot);
  execution.order_ = started_++;
  ++running_count_;

  queue_messages(execution, steps_done);
  if (execution.gate != nullptr && steps_done == 0) {  // a program has none
    execution.deadline = TimePoint::max();
    for (uint32_t& count : execution.waiting_for_) ++count;
    gated_.push_back(&execution);
    return;
  }
  // Last to first, because ports are a stack; local steps are a queue.
  for (size_t step = schedule.steps.size(); step-- > steps_done;)
    if (execution.waiting_for_[step] == 0) offer(execution, static_cast<uint32_t>(step));
  std::reverse(execution.ready_.begin(), execution.ready_.end());
}

// Each step of a gated operation waits for one thing more.
void Engine::open_gates() {
  const auto opens = [&](Execution* execution) {
    if (!execution->gate->is_open()) return false;
    execution->deadline = deadline_after(execution->timeout_s);
    for (size_t step = 0; step < execution->waiting_for_.size(); ++step)
      if (--execution->waiting_for_[step] == 0) offer(*execution, static_cast<uint32_t>(step));
    return true;
  };
  gated_.erase(std::remove_if(gated_.begin(), gated_.end(), opens), gated_.end());
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

// One turn of local work.
bool Engine::run_local(Trouble& trouble) {
  bool moved = false;
  uint64_t cost = 0;
  while (has_local_work() && cost < kTurnBytes && !trouble) {
    Execution& execution = *first_with_work_;
    first_with_work_ = execution.next_with_work_;
    const uint32_t index = execution.ready_[execution.next_ready_++];
    if (execution.has_local_work()) queue_local_work(execution);
    const Step& step = execution.schedule_.steps[index];
    cost += cost_of(step);
    moved = true;
    if (only_kernels_ && execution.plain_) {
      run_local_step(step, execution.spaces_, execution.arithmetic_, kernels_);
      complete(execution, index);
      continue;
    }
    if (execution.skips(step)) {
      complete(execution, index);
      continue;
    }
    LocalWork& work = *work_[static_cast<size_t>(step.memory)];
    const LocalWork::End end = execution.run(step, work, (uint64_t{execution.slot_} << 32) | index);
    if (end.outcome != LocalWork::Outcome::kPending) end_local(end, trouble);
  }
  return moved;
}

// What others than the host's kernels have ended.
bool Engine::collect_local(Trouble& trouble) {
  bool moved = false;
  std::array<LocalWork::End, 16> ends;
  for (const auto& work : other_work_) {
    const size_t count = work->poll(ends);
    for (size_t k = 0; k < count && !trouble; ++k) end_local(ends[k], trouble);
    moved = moved || count != 0;
  }
  return moved;
}

void Engine::end_local(const LocalWork::End& end, Trouble& trouble) {
  Execution& execution = *running_[end.cookie >> 32];
  const auto index = static_cast<uint32_t>(end.cookie);
  const Step& step = execution.schedule_.steps[index];
  if (end.outcome == LocalWork::Outcome::kFailed) {
    trouble = {Code::kCuda, -1, {}, {}, work_[static_cast<size_t>(step.memory)]->why_failed()};
  } else if (end.outcome == LocalWork::Outcome::kCorrupt) {
    const int sender = sender_to(execution.schedule_, slot_read_by(step));
    trouble = {Code::kCorrupt, sender, {}, {}, "what has come is no message of its codec"};
  } else {
    if (step.op == Op::kDecide) execution.branch_ = end.branch;
    if (step.dst.is_slot()) execution.message_bytes_[step.dst.slot] = end.message_bytes;
    complete(execution, index);
  }
}

Transfer Engine::transfer_for(const Execution& execution, uint32_t step) const {
  const Step& what = execution.schedule_.steps[step];
  Transfer transfer = transfer_of(what, execution.arithmetic_.op, execution.envelope_, kernels_);
  place(transfer, what, execution.spaces_);
  if (!execution.plain_) {
    transfer.up_to = what.dst.is_slot();
    if (what.src.is_slot()) transfer.envelope.bytes = execution.message_bytes_[what.src.slot];
  }
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
    const bool done = execution.skips(execution.schedule_.steps[step]) ||
                      (execution.plain_ && moves_at_once(transfer));
    if (!done) {
      Transport& transport = transport_to(transfer.peer, execution.schedule_.steps[step].memory);
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
        if (trace_ != nullptr && trace_->messages()) {
          Transfer transfer = transfer_for(*execution, step);
          if (transfer.up_to) transfer.envelope.bytes = completion.seen.bytes;
          trace_->moved(transfer, transport->name(), completion.passage);
        }
        const uint32_t slot = execution->schedule_.steps[step].dst.slot;
        if (slot != 0) execution->message_bytes_[slot] = completion.seen.bytes;
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
  if (!gated_.empty()) open_gates();
  bool moved = has_local_work() && run_local(trouble);
  moved = post_all(trouble) || moved;
  if (trouble) return moved;
  Result<bool> collected = collect(trouble);
  if (!collected.ok() || trouble) return collected;
  if (!only_kernels_) moved = collect_local(trouble) || moved;
  return (has_local_work() && run_local(trouble)) || *collected || moved;
}

void Engine::cancel() {
  if (running_count_ == 0) return;
  for (const auto& transport : transports_) transport->abandon();
  for (const auto& work : other_work_) work->abandon();
  for (PortQueue& queue : ports_) queue = {};
  postable_.clear();
  first_with_work_ = nullptr;
  gated_.clear();
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
    for (int peer = 0; peer < static_cast<int>(routes().size()); ++peer)
      for (const auto& transport : transports_) {
        const auto seen = transport->peek(peer, Lane::kCollective);
        if (seen && seen->epoch == mine.epoch && seen->call == mine.call &&
            !(seen->signature == mine.signature))
          return {Code::kMismatch, peer, mine, *seen, ""};
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

bool Engine::arm(std::vector<pollfd>& descriptors) {
  armed_ = 0;
  const auto add = [&](int descriptor) { descriptors.push_back({descriptor, POLLIN, 0}); };
  for (const auto& transport : transports_) {
    ++armed_;
    const bool quiet = transport->arm();
    add(transport->descriptor());
    if (!quiet) return false;
  }
  for (const auto& work : other_work_) {
    ++armed_;
    const bool quiet = work->arm();
    add(work->descriptor());
    if (!quiet) return false;
  }
  for (const Execution* execution : gated_) add(execution->gate->descriptor());
  return std::none_of(gated_.begin(), gated_.end(),
                      [](const Execution* execution) { return execution->gate->is_open(); });
}

void Engine::disarm() {
  const size_t transports = std::min(armed_, transports_.size());
  for (size_t i = 0; i < transports; ++i) transports_[i]->disarm();
  for (size_t i = transports; i < armed_; ++i) other_work_[i - transports]->disarm();
  armed_ = 0;
}

std::string_view Engine::name_of_armed(size_t index) const {
  if (index < transports_.size()) return transports_[index]->name();
  const size_t gates = transports_.size() + other_work_.size();
  if (index < gates) return "local work";
  return index < gates + gated_.size() ? "a gate" : "a link";
}

}  // namespace banyan
