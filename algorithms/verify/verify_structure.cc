// Checks what can be said of schedules without running them: that they are well formed, and that
// the ports of different ranks fit together.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

std::string text_of(Slice slice) {
  constexpr const char* kNames[] = {"input", "output", "scratch", "left", "window"};
  if (slice.is_slot()) return "wire slot " + std::to_string(slice.slot);
  return std::string(kNames[static_cast<size_t>(slice.space)]) + "[" +
         std::to_string(slice.offset) + ".." + std::to_string(slice.end()) + ")";
}

ScheduleFault check_dependencies(const Schedule& schedule) {
  const size_t count = schedule.steps.size();
  if (schedule.dependency_count.size() != count || schedule.port_of.size() != count ||
      schedule.successors_begin.size() != count + 1 || schedule.successors_begin.front() != 0 ||
      schedule.successors_begin.back() != schedule.successors.size() ||
      !std::is_sorted(schedule.successors_begin.begin(), schedule.successors_begin.end()))
    return "its lists do not have the length that its steps need";
  std::vector<uint32_t> counted(count, 0);
  for (uint32_t step = 0; step < count; ++step)
    for (const uint32_t next : schedule.successors_of(step)) {
      if (next <= step || next >= count)
        return "step " + std::to_string(next) + " follows step " + std::to_string(step) +
               " against program order";
      ++counted[next];
    }
  if (counted != schedule.dependency_count) return "dependency_count does not fit the successors";
  return {};
}

ScheduleFault check_ports(const Schedule& schedule, int rank, int ranks) {
  std::vector<bool> seen(2 * static_cast<size_t>(ranks));  // by peer and direction
  size_t listed = 0;
  for (size_t index = 0; index < schedule.ports.size(); ++index) {
    const Port& port = schedule.ports[index];
    if (port.peer < 0 || port.peer >= ranks || port.peer == rank)
      return "a port leads to rank " + std::to_string(port.peer);
    const size_t way = 2 * static_cast<size_t>(port.peer) + (port.sending ? 1 : 0);
    if (seen[way]) return "two ports lead the same way to rank " + std::to_string(port.peer);
    seen[way] = true;
    if (port.begin > port.end || port.end > schedule.port_steps.size())
      return "a port is not within port_steps";
    for (uint32_t at = port.begin; at < port.end; ++at) {
      const uint32_t id = schedule.port_steps[at];
      if (id >= schedule.steps.size() || (at > port.begin && schedule.port_steps[at - 1] >= id))
        return "the steps of a port are not in program order";
      const Step& step = schedule.steps[id];
      if (step.peer != port.peer || is_sending(step.op) != port.sending ||
          is_receiving(step.op) == port.sending ||
          schedule.port_of[id] != static_cast<int32_t>(index))
        return "step " + std::to_string(id) + " is on a port that is not its own";
      ++listed;
    }
  }
  size_t messages = 0;
  for (const Step& step : schedule.steps)
    if (is_sending(step.op) || is_receiving(step.op)) ++messages;
  if (listed != messages || listed != schedule.port_steps.size())
    return "a message is on no port or on two";
  return {};
}

// What the operands of a step have to be.
struct Shape {
  DataType type;            // what Step::type must be
  bool typed;               // whether it matters
  bool combines;            // needs a reduction
  bool converts;            // needs a codec
  uint64_t src, src2, dst;  // bytes of an element of the operand; 0: it is not used
};

// By a codec; wire slots are not counted in elements.
Shape coded_shape_of(Op op, DataType type) {
  const uint64_t wide = size_of(type);
  return {type,
          true,
          op == Op::kDecodeAdd,
          false,
          op == Op::kDecode ? 0 : wide,
          0,
          op == Op::kEncode || op == Op::kSelect ? 0 : wide};
}

Shape shape_of(const VerifiedCall& call, const Step& step) {
  const uint64_t narrow = size_of(call.type);
  const uint64_t wide = size_of(call.accumulator);
  switch (step.op) {
    case Op::kSend: return {call.type, false, false, false, 1, 0, 0};
    case Op::kRecv: return {call.type, false, false, false, 0, 0, 1};
    case Op::kCopy: return {call.type, false, false, false, 1, 0, 1};
    case Op::kReduce: return {call.accumulator, true, true, false, wide, wide, wide};
    case Op::kEncode: return {call.type, true, false, true, wide, 0, narrow};
    case Op::kDecode: return {call.type, true, false, true, narrow, 0, wide};
    case Op::kDecodeAdd: return {call.type, true, true, true, wide, narrow, wide};
    case Op::kRecvReduce: return {call.accumulator, true, true, false, wide, 0, wide};
    case Op::kRecvDecodeAdd: return {call.type, true, true, true, wide, 0, wide};
    case Op::kFold:
      if (step.dst.space == Space::kScratch)
        return {call.accumulator, true, true, false, wide, 0, wide};
      return {call.type, true, true, false, narrow, 0, narrow};
    case Op::kSelect:  // by a codec only
    case Op::kOffer:
    case Op::kDecide:
    case Op::kDelegate:
    case Op::kWithdraw: break;
  }
  return {};
}

bool overlap(Slice one, Slice other) {
  if (one.space != other.space || one.size == 0 || other.size == 0) return false;
  return one.offset < other.end() && other.offset < one.end();
}

// A kernel may write where it reads, element by element, but not next to it.
bool overlaps_badly(Slice read, Slice write) {
  return overlap(read, write) && read != write;
}

// The same lists as the step says, of all ranks that take part.
ScheduleFault check_delegation(const VerifiedCall& call, int rank, const Step& step) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  if (step.coding >= schedule.delegations.size()) return "is of no delegation of the schedule";
  const Delegation& delegation = schedule.delegations[step.coding];
  const std::vector<int32_t> ranks = call.window_ranks(rank);
  const size_t places = ranks.size();
  if (delegation.to.size() != places || delegation.from.size() != places)
    return "does not say what each rank is given";
  const auto within = [](const std::vector<Slice>& slices, const Slice& reach) {
    return std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) {
      return slice.size == 0 || (slice.space == reach.space && slice.offset >= reach.offset &&
                                 slice.end() <= reach.end());
    });
  };
  if (!within(delegation.to, step.src) || !within(delegation.from, step.dst))
    return "gives or takes what it does not reach";
  for (size_t taken = 0; taken < places; ++taken)
    for (size_t other = 0; other < places; ++other) {
      const Slice& to = delegation.from[taken];
      const bool stays = taken == other && ranks[taken] == rank && delegation.to[other] == to;
      if (overlap(delegation.to[other], to) && !stays) return "writes over a part of what it gives";
      if (taken != other && overlap(delegation.from[other], to)) return "takes two to one place";
    }
  return {};
}

uint64_t offer_bytes(const VerifiedCall& call, int rank) {
  return call.collective == Collective::kAlltoallv
             ? listed_offer_bytes(call.window_ranks(rank).size())
             : kOfferBytes;
}

// Where ranks know only their own counts, it has those of the call.
ScheduleFault check_offer(const VerifiedCall& call, int rank, const Step& step) {
  if (step.dst.size != offer_bytes(call, rank))
    return "does not write what a rank says of its window";
  if (call.collective != Collective::kAlltoallv) return {};
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  const Problem& problem = call.problems[static_cast<size_t>(rank)];
  if (step.coding >= schedule.delegations.size()) return "is of no delegation of the schedule";
  const Delegation& delegation = schedule.delegations[step.coding];
  const auto lists = [&](const std::vector<Slice>& slices, const std::vector<uint64_t>& counts) {
    return std::equal(slices.begin(), slices.end(), counts.begin(), counts.end(),
                      [&](const Slice& slice, uint64_t count) {
                        return slice.size == count * problem.element();
                      });
  };
  if (!lists(delegation.to, problem.send_counts) || !lists(delegation.from, problem.recv_counts))
    return "does not say how much it gives each rank and takes from each";
  return {};
}

ScheduleFault check_shape(const VerifiedCall& call, int rank, Step step) {
  if (step.op == Op::kDelegate) return check_delegation(call, rank, step);
  if (step.op == Op::kOffer) return check_offer(call, rank, step);
  if (step.op == Op::kDecide)
    return step.src.size == offer_bytes(call, rank) * call.window_ranks(rank).size()
               ? ""
               : "does not look at what each rank says of its window";
  const bool coded = step.codec != kNoCodec;
  if (step.op == Op::kFold && step.src2.size != 0) {
    if (step.src2.space != Space::kWindow ||
        step.src2.size != step.src.size * call.window_ranks(rank).size())
      return "folds what is not as many parts as there are ranks";
    step.src2 = {};
  }
  // GPUs encode elements, and decode to them.
  const bool of_elements = step.branch == Branch::kPeers && step.op != Op::kFold;
  const Shape shape = coded ? coded_shape_of(step.op, of_elements ? call.type : call.accumulator)
                            : shape_of(call, step);
  for (Slice* slice : {&step.src, &step.src2, &step.dst})
    if (coded && (slice->is_slot() || slice->space == Space::kWindow)) *slice = {};
  Slice* const selection = step.op == Op::kSelect   ? &step.dst
                           : step.op == Op::kEncode ? &step.src2
                                                    : nullptr;
  if (coded && selection != nullptr &&
      (step.op == Op::kSelect || selection->size == sizeof(Selection)))
    *selection = {};
  if (shape.combines && !call.reduces) return "combines, but the call is no reduction";
  if (shape.converts && !call.has_codec()) return "converts, but there is nothing to convert";
  if (shape.typed && step.type != shape.type)
    return "has type " + std::string(name_of(step.type)) + " instead of " +
           std::string(name_of(shape.type));
  const auto elements = [&](Slice slice, uint64_t width) {
    return width == 0 ? 0 : slice.size / width;
  };
  const auto torn = [&](Slice slice, uint64_t width) {
    return width == 0 ? slice.size != 0 : slice.size % width != 0;
  };
  if (torn(step.src, shape.src) || torn(step.src2, shape.src2) || torn(step.dst, shape.dst))
    return "an operand is not a whole number of elements, or must not be there";
  const uint64_t count = std::max({elements(step.src, shape.src), elements(step.src2, shape.src2),
                                   elements(step.dst, shape.dst)});
  if ((shape.src != 0 && elements(step.src, shape.src) != count) ||
      (shape.src2 != 0 && elements(step.src2, shape.src2) != count) ||
      (shape.dst != 0 && elements(step.dst, shape.dst) != count))
    return "its operands differ in length";
  return {};
}

ScheduleFault check_slices(const Layout& layout, const Schedule& schedule, const Step& step) {
  for (const Slice slice : {step.src, step.src2, step.dst, step.dst2}) {
    if (slice.size == 0) continue;
    const uint64_t limits[] = {layout.input_size, layout.output_size, schedule.scratch_size,
                               schedule.left_count * sizeof(float), kWindowBytes};
    const uint64_t limit = limits[static_cast<size_t>(slice.space)];
    if (slice.size > limit || slice.offset > limit - slice.size)
      return text_of(slice) + " ends behind " + std::to_string(limit);
  }
  for (const Slice written : {step.dst, step.dst2}) {
    if (written.size != 0 && written.space == Space::kInput) return "writes the send buffer";
    const bool is_looked_at = step.op == Op::kDelegate;  // part by part
    if (!is_looked_at && (overlaps_badly(step.src, written) || overlaps_badly(step.src2, written)))
      return "writes over a part of what it reads";
  }
  return {};
}

// The port at the other end has as many messages; of the same sizes, as the sender's is looked at.
ScheduleFault check_partner(const VerifiedCall& call, int rank, const Port& port) {
  const Schedule& mine = call.schedules[static_cast<size_t>(rank)];
  const Schedule& theirs = call.schedules[static_cast<size_t>(port.peer)];
  const Port* partner = find_port(theirs, rank, !port.sending);
  const uint32_t count = port.end - port.begin;
  const uint32_t partners = partner == nullptr ? 0 : partner->end - partner->begin;
  if (count > partners)
    return place_of(call, rank, mine.port_steps[port.begin + partners]) + ": nothing at rank " +
           std::to_string(port.peer) + " matches this message";
  for (uint32_t index = 0; port.sending && index < count; ++index) {
    const uint32_t here = mine.port_steps[port.begin + index];
    const uint32_t there = theirs.port_steps[partner->begin + index];
    const uint64_t sizes[] = {message_size(call, mine.steps[here]),
                              message_size(call, theirs.steps[there])};
    if (mine.steps[here].src.is_slot() != theirs.steps[there].dst.is_slot())
      return place_of(call, rank, here) + " and " + place_of(call, port.peer, there) +
             ": a wire slot meets plain bytes";
    if (sizes[0] != sizes[1])
      return place_of(call, rank, here) + ": " + std::to_string(sizes[0]) + " bytes, but " +
             place_of(call, port.peer, there) + ": " + std::to_string(sizes[1]);
  }
  return {};
}

// A step of one branch comes after the decision for it. Program order is an order in which steps
// may run, so one pass over them sees what leads to which.
ScheduleFault check_branches(const VerifiedCall& call, int rank) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  std::vector<bool> is_decided(schedule.steps.size());
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const bool decided = is_decided[step] || schedule.steps[step].op == Op::kDecide;
    if (!is_decided[step] && schedule.steps[step].branch != Branch::kAlways)
      return place_of(call, rank, step) + ": is of a branch, but comes before the decision for one";
    for (const uint32_t next : schedule.successors_of(step))
      is_decided[next] = is_decided[next] || decided;
  }
  return {};
}

// Each delegate waits for the one before. By step: how many of them it waits for.
ScheduleFault check_delegates(const VerifiedCall& call, int rank) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  std::vector<uint32_t> behind(schedule.steps.size());
  uint32_t delegates = 0;
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const bool is_one = schedule.steps[step].op == Op::kDelegate;
    if (is_one && behind[step] != delegates)
      return place_of(call, rank, step) + ": does not wait for the delegate before";
    if (is_one) ++delegates;
    for (const uint32_t next : schedule.successors_of(step))
      behind[next] = std::max(behind[next], is_one ? delegates : behind[step]);
  }
  return {};
}

ScheduleFault check_rank(const VerifiedCall& call, const Layout& layout, int rank) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  ScheduleFault fault = check_dependencies(schedule);
  if (fault.empty()) fault = check_ports(schedule, rank, call.ranks);
  if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    fault = check_codec(call, rank, schedule.steps[step]);
    if (fault.empty()) fault = check_shape(call, rank, schedule.steps[step]);
    if (fault.empty()) fault = check_slices(layout, schedule, schedule.steps[step]);
    if (!fault.empty()) return place_of(call, rank, step) + ": " + fault;
  }
  fault = check_branches(call, rank);
  if (fault.empty()) fault = check_delegates(call, rank);
  if (fault.empty()) fault = check_slots(call, rank);
  return fault.empty() ? check_left(call, rank) : fault;
}

}  // namespace

bool is_sending(Op op) {
  return op == Op::kSend;
}

const Port* find_port(const Schedule& schedule, int peer, bool sending) {
  for (const Port& port : schedule.ports)
    if (port.peer == peer && port.sending == sending) return &port;
  return nullptr;
}

bool is_receiving(Op op) {
  return op == Op::kRecv || op == Op::kRecvReduce || op == Op::kRecvDecodeAdd;
}

std::string place_of(const VerifiedCall& call, int rank, uint32_t step) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + " s" + std::to_string(step) + " (" +
         std::string(name_of(schedule.steps[step].op)) + ")";
}

uint64_t message_size(const VerifiedCall& call, const Step& step) {
  if (step.op == Op::kSend) return step.src.size;
  if (step.op != Op::kRecvDecodeAdd) return step.dst.size;
  return step.dst.size / size_of(call.accumulator) * size_of(call.type);
}

ScheduleFault check_structure(const VerifiedCall& call, std::span<const Layout> layouts) {
  ScheduleFault fault = check_each(call.ranks, [&](int rank) {
    return check_rank(call, layouts[static_cast<size_t>(rank)], rank);
  });
  if (!fault.empty()) return fault;
  return check_each(call.ranks, [&](int rank) {
    for (const Port& port : call.schedules[static_cast<size_t>(rank)].ports) {
      ScheduleFault wrong = check_partner(call, rank, port);
      if (!wrong.empty()) return wrong;
    }
    return ScheduleFault{};
  });
}

}  // namespace banyan
