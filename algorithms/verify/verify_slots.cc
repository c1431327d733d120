// Checks that a wire slot is one range of scratch, wherever it is named, and that only steps by a
// codec look into it.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "algorithms/staging.h"
#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

constexpr Slice Step::*kOperands[] = {&Step::src, &Step::src2, &Step::dst, &Step::dst2};

bool fuses(Op op) {
  return op == Op::kRecvReduce || op == Op::kRecvDecodeAdd;
}

// The operand that must be a wire slot where a step goes by a codec; null: it cannot.
Slice Step::*slot_by_codec(Op op) {
  switch (op) {
    case Op::kEncode: return &Step::dst;
    case Op::kDecode: return &Step::src;
    case Op::kDecodeAdd: return &Step::src2;
    case Op::kSend:
    case Op::kRecv:
    case Op::kCopy:
    case Op::kReduce:
    case Op::kSelect:
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw:
    case Op::kRecvReduce:
    case Op::kRecvDecodeAdd: break;
  }
  return nullptr;
}

// The operand that may be one where it goes by none.
Slice Step::*slot_that_travels(Op op) {
  if (op == Op::kSend) return &Step::src;
  return op == Op::kRecv ? &Step::dst : nullptr;
}

std::string name_of_slot(uint32_t slot) {
  return "wire slot " + std::to_string(slot);
}

// Finds where each slot is; `slots` is sorted by place.
ScheduleFault find_slots(const VerifiedCall& call, int rank, std::vector<Slice>& slots) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  std::vector<Slice> by_number(schedule.slots);
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    for (Slice Step::*const operand : kOperands) {
      const Slice slice = schedule.steps[step].*operand;
      if (!slice.is_slot()) continue;
      const auto fault = [&](const char* what) {
        return place_of(call, rank, step) + ": " + name_of_slot(slice.slot) + what;
      };
      if (slice.slot > schedule.slots) return fault(" is none of the schedule's");
      if (slice.space != Space::kScratch || slice.size == 0)
        return fault(" is empty, or not in scratch");
      Slice& known = by_number[slice.slot - 1];
      if (known.is_slot() && known != slice) return fault(" is another range elsewhere");
      known = slice;
    }
  std::erase_if(by_number, [](Slice slot) { return !slot.is_slot(); });
  slots = std::move(by_number);
  std::sort(slots.begin(), slots.end(),
            [](Slice left, Slice right) { return left.offset < right.offset; });
  for (size_t index = 1; index < slots.size(); ++index)
    if (slots[index].offset < slots[index - 1].end())
      return "rank " + std::to_string(rank) + ": " + name_of_slot(slots[index - 1].slot) + " and " +
             name_of_slot(slots[index].slot) + " overlap";
  return {};
}

bool touches_staged(const Step& step, const Staging& staging) {
  return std::any_of(std::begin(kOperands), std::end(kOperands),
                     [&](Slice Step::*operand) { return staging.holds(step.*operand); });
}

// Steps with windows are done by a GPU, but for the round before them, and only copies name a rank
// whose window they read.
ScheduleFault check_window(const VerifiedCall& call, const Step& step) {
  const bool in_window =
      std::any_of(std::begin(kOperands), std::end(kOperands), [&](Slice Step::*operand) {
        return (step.*operand).size != 0 && (step.*operand).space == Space::kWindow;
      });
  if (is_transfer(step.op)) return in_window ? "sends or receives a window" : "";
  const bool reads_peer = (step.op == Op::kCopy || step.op == Op::kDecode) && step.src.size != 0 &&
                          step.src.space == Space::kWindow;
  if (step.peer >= 0 && (!reads_peer || step.peer >= call.ranks))
    return "names a rank whose window it does not read";
  if (step.op == Op::kFold && step.src.space != Space::kWindow) return "folds what is no window";
  if (step.delegates && step.op != Op::kOffer && step.op != Op::kDecide)
    return "is no word of windows, and says who fills them";
  const bool delegated = step.op == Op::kDelegate;
  const bool knows_all = step.branch == Branch::kPeers;
  if ((in_window || delegated || step.op == Op::kFold || step.op == Op::kWithdraw) && !knows_all)
    return "uses a window that not all ranks have";
  return knows_all && step.memory != MemoryKind::kDevice ? "uses windows, but is for the host" : "";
}

// Between two buffers, or of a message.
bool goes_straight(const VerifiedCall& call, const Step& step, const Staging& staging) {
  if (!call.direct || step.memory != MemoryKind::kDevice) return false;
  return step.op == Op::kSend || step.op == Op::kRecv ||
         (step.op == Op::kCopy && staging.holds(step.src) && staging.holds(step.dst));
}

bool moves_staged(const Step& step) {
  const bool from_scratch = step.src.space == Space::kScratch;
  return step.op == Op::kCopy && step.memory == MemoryKind::kDevice &&
         from_scratch != (step.dst.space == Space::kScratch);
}

}  // namespace

ScheduleFault check_codec(const VerifiedCall& call, int rank, const Step& step) {
  const Problem& problem = call.problems[static_cast<size_t>(rank)];
  const bool coded = step.codec != kNoCodec;
  Slice Step::*const slot = coded ? slot_by_codec(step.op) : slot_that_travels(step.op);
  const bool selects = step.op == Op::kSelect;
  if (selects && !coded) return "selects without a codec";
  const bool folds = step.op == Op::kFold;
  if (coded && slot == nullptr && !selects && !folds)
    return "has a codec, but neither encodes nor decodes";
  if (coded && !may_encode(problem)) return "goes by a codec, but the call's values must be exact";
  const bool in_windows = step.branch == Branch::kPeers;
  if (slot != nullptr && coded && !in_windows && !(step.*slot).is_slot())
    return "goes by a codec from or to what is no wire slot";
  for (Slice Step::*const operand : kOperands)
    if ((step.*operand).is_slot() && operand != slot)
      return "takes " + name_of_slot((step.*operand).slot) + " for plain bytes";
  if (coded && (step.op == Op::kEncode || selects ? step.src : step.dst).size == 0)
    return "goes by a codec, but has no values";
  const bool encodes = coded && step.op == Op::kEncode;
  if (step.dst2.size != 0 && (!encodes || step.dst2.size != step.src.size))
    return "what is left over is not as long as what a codec encodes";
  ScheduleFault window = check_window(call, step);
  if (!window.empty()) return window;
  const bool of_windows =
      !is_transfer(step.op) &&
      (step.branch == Branch::kPeers || step.op == Op::kOffer || step.op == Op::kDecide);
  if (of_windows) return {};
  if (touches_staged(step, problem.staging)) {
    const bool done_there =
        step.memory == MemoryKind::kDevice && is_done_there(step, problem.staging);
    if (!moves_staged(step) && !done_there && !goes_straight(call, step, problem.staging))
      return "touches what is staged, and is neither a copy from or to scratch nor done there";
  } else if (step.memory != problem.memory) {
    return "is for " + std::string(name_of(step.memory)) + " memory, but the call's is " +
           std::string(name_of(problem.memory));
  }
  if (fuses(step.op) && step.memory == MemoryKind::kDevice)
    return "adds a message to what the host cannot touch";
  return {};
}

ScheduleFault check_slots(const VerifiedCall& call, int rank) {
  std::vector<Slice> slots;
  ScheduleFault fault = find_slots(call, rank, slots);
  if (!fault.empty() || slots.empty()) return fault;
  const std::vector<Step>& steps = call.schedules[static_cast<size_t>(rank)].steps;
  for (uint32_t step = 0; step < steps.size(); ++step)
    for (Slice Step::*const operand : kOperands) {
      const Slice slice = steps[step].*operand;
      if (slice.is_slot() || slice.space != Space::kScratch || slice.size == 0) continue;
      const auto behind = std::partition_point(
          slots.begin(), slots.end(), [&](Slice slot) { return slot.end() <= slice.offset; });
      if (behind != slots.end() && behind->offset < slice.end())
        return place_of(call, rank, step) + " touches bytes of " + name_of_slot(behind->slot);
    }
  return {};
}

}  // namespace banyan
