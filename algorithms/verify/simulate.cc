// Events are taken in the order of time. A step that can begin asks for its core. A message asks
// for
//
//   the wire out of the host                  once it has left its sender's first portion
//   the uplinks that follow, upwards          once its first byte is there
//   the same downwards, and the wire into     a latency later
//   the other host
//
// Whoever asks first is served first.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/simulate.h"

#include <algorithm>
#include <cassert>
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
  size_t level = 0;  // of the wire that it asks for: 0 a host's, then those of tiers

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
    out_.emplace_back(static_cast<size_t>(hosts));
    for (const SimulatedTier& tier : machine.tiers) {
      assert(tier.part_of_host.size() >= static_cast<size_t>(hosts));
      int parts = 0;
      for (const int part : tier.part_of_host) parts = std::max(parts, part + 1);
      out_.emplace_back(static_cast<size_t>(parts));
    }
    in_ = out_;
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
    for (const auto& levels : {out_, in_})
      for (const auto& wires : levels)
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

  // What of a level the rank is in: its host, its part of a tier.
  size_t part_of(size_t level, size_t rank) const {
    const auto host = static_cast<size_t>(seat_of(rank).host);
    return level == 0 ? host : static_cast<size_t>(machine_.tiers[level - 1].part_of_host[host]);
  }
  // How many levels of wires a message crosses in each direction: 0 within a host.
  size_t levels_between(size_t a, size_t b) const {
    size_t levels = 0;
    while (levels <= machine_.tiers.size() && part_of(levels, a) != part_of(levels, b)) ++levels;
    return levels;
  }
  double latency(size_t a, size_t b) const {
    const size_t levels = levels_between(a, b);
    return levels < 2 ? cost_between(a, b).latency : machine_.tiers[levels - 2].latency;
  }
  double wire_byte(size_t level) const {
    return level == 0 ? machine_.between.wire_byte : machine_.tiers[level - 1].wire_byte;
  }
  // Finds the slowest wire of the first `levels`.
  double slowest_byte(const MessageCost& cost, size_t levels) const {
    double slowest = cost.wire_byte;
    for (size_t level = 1; level < levels; ++level) slowest = std::max(slowest, wire_byte(level));
    return slowest;
  }

  void ask(Event::Kind kind, double time, size_t rank, uint32_t step, size_t level = 0) {
    events_.push({kind, time, order_++, rank, step, level});
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
      case Op::kDecodeAdd:
      case Op::kSelect:
      case Op::kOffer:
      case Op::kDecide:
      case Op::kFold:
      case Op::kDelegate:
      case Op::kWithdraw: return cost.recv_byte;
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
      case Op::kEncode:
      case Op::kSelect: return of_bytes(work.codec_byte, step.src.size);
      case Op::kDecode:
      case Op::kDecodeAdd: return of_bytes(work.codec_byte, step.dst.size);
      case Op::kOffer:
      case Op::kDecide:
      case Op::kFold:
      case Op::kDelegate:
      case Op::kWithdraw: break;  // nothing of GPUs is simulated
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

  // Says when the message, which has come over the first `levels` of wires, begins to leave this
  // one. On one that is faster than those before, others are carried between its bytes: it waits
  // only as long as its last byte does.
  double carry(std::vector<std::vector<Server>>& wires, const Event& event, size_t rank,
               size_t levels) {
    const uint64_t bytes = step_at(event.rank, event.step).src.size;
    const double carried = of_bytes(wire_byte(event.level), bytes);
    const double comes_for = of_bytes(slowest_byte(machine_.between, levels), bytes);
    Server& wire = wires[event.level][part_of(event.level, rank)];
    const double begin = wire.serve(event.time, carried);
    return std::max(event.time, begin - std::max(comes_for - carried, 0.0));
  }

  void leave(const Event& event) {
    const size_t to = receiving_rank(event), levels = levels_between(event.rank, to);
    double begin = event.time;
    if (levels > 0) begin = carry(out_, event, event.rank, event.level);
    if (levels > 0 && event.level == 0)
      result_.wire_bytes += step_at(event.rank, event.step).src.size;
    if (event.level + 1 < levels)
      ask(Event::Kind::kLeave, begin, event.rank, event.step, event.level + 1);
    else
      ask(Event::Kind::kEnter, begin + latency(event.rank, to), event.rank, event.step,
          event.level);
  }

  void enter(const Event& event) {
    const StepAt to = state(event.rank, event.step).receiver;
    const size_t levels = levels_between(event.rank, to.schedule);
    double begin = event.time;
    if (levels > 0) begin = carry(in_, event, to.schedule, levels);
    if (event.level > 0)
      ask(Event::Kind::kEnter, begin, event.rank, event.step, event.level - 1);
    else
      deliver(event, to, begin);
  }

  // The message's first byte is there.
  void deliver(const Event& event, StepAt to, double begin) {
    const Step& step = step_at(event.rank, event.step);
    const MessageCost& cost = cost_between(event.rank, to.schedule);
    const double byte = slowest_byte(cost, levels_between(event.rank, to.schedule));
    const uint64_t last = std::min(step.src.size, cost.portion);
    // The last portion leaves when it is carried there and its sender's core is done with it.
    const double end = std::max(begin + of_bytes(byte, step.src.size),
                                state(event.rank, event.step).sent +
                                    latency(event.rank, to.schedule) + of_bytes(byte, last));
    // So late that its core, working without a pause, ends with the last portion.
    const Step& receive = step_at(to.schedule, to.step);
    const double work = takes(to.schedule, receive);
    const double work_on_last =
        std::min(work, cost.recv + of_bytes(per_received_byte(cost, receive), last));
    arrive(to.schedule, to.step, std::max(begin + of_bytes(byte, last), end + work_on_last - work));
  }

  void arrive(size_t rank, uint32_t step, double time) {
    State& waiting = state(rank, step);
    waiting.ready = std::max(waiting.ready, time);
    if (--waiting.waits_for == 0) ask(Event::Kind::kStep, waiting.ready, rank, step);
  }

  std::span<const Schedule> schedules_;
  const SimulatedMachine& machine_;
  std::vector<std::vector<State>> states_;
  std::vector<Server> cores_;
  std::vector<std::vector<Server>> out_, in_;  // by level and part
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  Simulated result_;
};

}  // namespace

Simulated simulate(std::span<const Schedule> schedules, const SimulatedMachine& machine) {
  return Simulation(schedules, machine).run();
}

}  // namespace banyan
