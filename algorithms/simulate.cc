// Events in the order of time. A step that can begin asks for its core; a message that has left its
// sender's first portion asks for the wire out of the host, its first byte for the wire into the
// other. Whoever asks first is served first.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/simulate.h"

#include <algorithm>
#include <queue>

#include "algorithms/messages.h"
#include "algorithms/step_text.h"

namespace banyan {

namespace {

double of_bytes(double each, uint64_t bytes) {
  return each * static_cast<double>(bytes);
}

// Something that serves one at a time.
struct Server {
  double free_at = 0;
  double busy = 0;

  // When it begins with what asks for it now.
  double serve(double now, double takes) {
    const double begin = std::max(now, free_at);
    free_at = begin + takes;
    busy += takes;
    return begin;
  }
};

struct Event {
  enum class Kind : uint8_t { kStep, kLeave, kEnter } kind;
  double time;
  uint64_t order;  // among those of one time
  size_t rank;     // of the step that can begin, or of the sending one
  uint32_t step;

  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

class Simulation {
 public:
  Simulation(std::span<const Schedule> schedules, const SimulatedMachine& machine)
      : schedules_(schedules), machine_(machine) {
    int cores = 0, hosts = 0;
    for (const Seat& seat : machine.seats) {
      cores = std::max(cores, seat.core + 1);
      hosts = std::max(hosts, seat.host + 1);
    }
    cores_.resize(static_cast<size_t>(cores));
    out_.resize(static_cast<size_t>(hosts));
    in_.resize(static_cast<size_t>(hosts));
    std::vector<int> ranks;
    for (const Schedule& schedule : schedules) {
      ranks.push_back(static_cast<int>(ranks.size()));
      states_.emplace_back(schedule.steps.size());
      for (size_t step = 0; step < schedule.steps.size(); ++step)
        states_.back()[step].waits_for = schedule.dependency_count[step];
    }
    for (const Message& message : match_messages(schedules, ranks)) {
      state(message.to.schedule, message.to.step).waits_for += 1;
      state(message.from.schedule, message.from.step).receiver = message.to;
    }
  }

  Simulated run() {
    uint64_t left = 0;
    for (size_t rank = 0; rank < schedules_.size(); ++rank) {
      Server& core = core_of(rank);
      core.serve(0, machine_.work.call);
      for (uint32_t step = 0; step < states_[rank].size(); ++step, ++left)
        if (state(rank, step).waits_for == 0)
          ask(Event::Kind::kStep, core.free_at, rank, step);
        else
          state(rank, step).ready = core.free_at;
      result_.seconds = std::max(result_.seconds, core.free_at);
    }
    for (; !events_.empty(); events_.pop()) {
      const Event event = events_.top();
      switch (event.kind) {
        case Event::Kind::kStep:
          execute(event);
          --left;
          break;
        case Event::Kind::kLeave: leave(event); break;
        case Event::Kind::kEnter: enter(event); break;
      }
    }
    result_.unfinished = left;
    for (const Server& core : cores_)
      result_.busiest_core = std::max(result_.busiest_core, core.busy);
    for (const auto& wires : {out_, in_})
      for (const Server& wire : wires)
        result_.busiest_wire = std::max(result_.busiest_wire, wire.busy);
    return result_;
  }

 private:
  struct State {
    uint32_t waits_for = 0;
    double ready = 0;       // when the latest of those was there
    double sent = 0;        // of a send: when its core was done with it
    StepAt receiver{0, 0};  // of a send
  };

  State& state(size_t rank, uint32_t step) { return states_[rank][step]; }
  const Step& step_at(size_t rank, uint32_t step) const { return schedules_[rank].steps[step]; }
  const Seat& seat_of(size_t rank) const { return machine_.seats[rank]; }
  Server& core_of(size_t rank) { return cores_[static_cast<size_t>(seat_of(rank).core)]; }
  const MessageCost& cost_between(size_t a, size_t b) const {
    return seat_of(a).host == seat_of(b).host ? machine_.within : machine_.between;
  }
  size_t receiving_rank(const Event& event) {
    return state(event.rank, event.step).receiver.schedule;
  }

  void ask(Event::Kind kind, double time, size_t rank, uint32_t step) {
    events_.push({kind, time, order_++, rank, step});
  }

  // What a receiving core does for one byte of the message.
  double per_received_byte(const MessageCost& cost, const Step& step) const {
    const WorkCost& work = machine_.work;
    switch (step.op) {
      case Op::kRecvReduce: return cost.recv_byte + work.reduce_byte;
      case Op::kRecvDecodeAdd: {
        const double bytes = static_cast<double>(std::max<uint64_t>(message_bytes(step), 1));
        return cost.recv_byte + work.codec_byte * static_cast<double>(step.dst.size) / bytes;
      }
      case Op::kRecv:
      case Op::kSend:
      case Op::kCopy:
      case Op::kReduce:
      case Op::kEncode:
      case Op::kDecode:
      case Op::kDecodeAdd: return cost.recv_byte;
    }
    return cost.recv_byte;
  }

  double takes(size_t rank, const Step& step) const {
    const WorkCost& work = machine_.work;
    const auto peer = static_cast<size_t>(std::max(step.peer, 0));
    switch (step.op) {
      case Op::kSend: {
        const MessageCost& cost = cost_between(rank, peer);
        return cost.send + of_bytes(cost.send_byte, step.src.size);
      }
      case Op::kRecv:
      case Op::kRecvReduce:
      case Op::kRecvDecodeAdd: {
        const MessageCost& cost = cost_between(peer, rank);
        return cost.recv + of_bytes(per_received_byte(cost, step), message_bytes(step));
      }
      case Op::kCopy: return of_bytes(work.copy_byte, step.dst.size);
      case Op::kReduce: return of_bytes(work.reduce_byte, step.dst.size);
      case Op::kEncode: return of_bytes(work.codec_byte, step.src.size);
      case Op::kDecode:
      case Op::kDecodeAdd: return of_bytes(work.codec_byte, step.dst.size);
    }
    return 0;
  }

  void execute(const Event& event) {
    const Step& step = step_at(event.rank, event.step);
    const double work = takes(event.rank, step);
    const double begin = core_of(event.rank).serve(event.time, work);
    const double end = begin + work;
    result_.seconds = std::max(result_.seconds, end);
    if (step.op == Op::kSend) {
      state(event.rank, event.step).sent = end;
      const MessageCost& cost = cost_between(event.rank, receiving_rank(event));
      const uint64_t first = std::min(step.src.size, cost.portion);
      ask(Event::Kind::kLeave, begin + cost.send + of_bytes(cost.send_byte, first), event.rank,
          event.step);
    }
    for (const uint32_t next : schedules_[event.rank].successors_of(event.step))
      arrive(event.rank, next, end);
  }

  void leave(const Event& event) {
    const Step& step = step_at(event.rank, event.step);
    const MessageCost& cost = cost_between(event.rank, receiving_rank(event));
    double begin = event.time;
    if (crosses(event)) {
      begin = wire(out_, event.rank).serve(event.time, of_bytes(cost.wire_byte, step.src.size));
      result_.wire_bytes += step.src.size;
    }
    ask(Event::Kind::kEnter, begin + cost.latency, event.rank, event.step);
  }

  void enter(const Event& event) {
    const Step& step = step_at(event.rank, event.step);
    const StepAt to = state(event.rank, event.step).receiver;
    const MessageCost& cost = cost_between(event.rank, to.schedule);
    const double carried = of_bytes(cost.wire_byte, step.src.size);
    const double begin =
        crosses(event) ? wire(in_, to.schedule).serve(event.time, carried) : event.time;
    const uint64_t last = std::min(step.src.size, cost.portion);
    // The last portion leaves when it is carried there and its sender's core is done with it.
    const double end = std::max(begin + carried, state(event.rank, event.step).sent + cost.latency +
                                                     of_bytes(cost.wire_byte, last));
    // So late that its core, working without a pause, ends with the last portion.
    const Step& receive = step_at(to.schedule, to.step);
    const double work = takes(to.schedule, receive);
    const double work_on_last =
        std::min(work, cost.recv + of_bytes(per_received_byte(cost, receive), last));
    arrive(to.schedule, to.step,
           std::max(begin + of_bytes(cost.wire_byte, last), end + work_on_last - work));
  }

  void arrive(size_t rank, uint32_t step, double time) {
    State& waiting = state(rank, step);
    waiting.ready = std::max(waiting.ready, time);
    if (--waiting.waits_for == 0) ask(Event::Kind::kStep, waiting.ready, rank, step);
  }

  bool crosses(const Event& event) {
    return seat_of(event.rank).host != seat_of(receiving_rank(event)).host;
  }
  Server& wire(std::vector<Server>& wires, size_t rank) {
    return wires[static_cast<size_t>(seat_of(rank).host)];
  }

  std::span<const Schedule> schedules_;
  const SimulatedMachine& machine_;
  std::vector<std::vector<State>> states_;
  std::vector<Server> cores_, out_, in_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  Simulated result_;
};

}  // namespace

Simulated simulate(std::span<const Schedule> schedules, const SimulatedMachine& machine) {
  return Simulation(schedules, machine).run();
}

}  // namespace banyan
