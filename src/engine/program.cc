// SPDX-License-Identifier: Apache-2.0

#include "src/engine/program.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kStepsMost = 1024;

// Whether each step comes after those that it waits for.
bool is_in_order(const Schedule& schedule) {
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const auto successors = schedule.successors_of(step);
    if (std::any_of(successors.begin(), successors.end(),
                    [&](uint32_t next) { return next <= step; }))
      return false;
  }
  return true;
}

}  // namespace

std::optional<Program> Program::lower(const Schedule& schedule, const Arithmetic& arithmetic,
                                      const Envelope& envelope, Engine& engine, Lane lane) {
  if (schedule.steps.size() > kStepsMost || !is_in_order(schedule)) return std::nullopt;
  const Usage usage = usage_of(schedule);
  std::vector<Instruction> instructions;
  for (const Step& step : schedule.steps) {
    if (!is_plain(step)) return std::nullopt;
    Instruction& instruction = instructions.emplace_back();
    instruction.step = &step;
    if (!is_transfer(step.op)) continue;
    instruction.quick = engine.transport_to(step.peer).quick_lane(step.peer, lane);
    instruction.transfer = transfer_of(step, arithmetic.op, envelope, engine.kernels());
    instruction.transfer.lane = lane;
    instruction.transfer.usage = usage;
    if (instruction.quick == nullptr || !instruction.quick->takes(instruction.transfer))
      return std::nullopt;
  }
  return Program(std::move(instructions), arithmetic, envelope, engine.kernels(), lane);
}

void Program::hand_over(Engine& engine, Execution& execution) const {
  const bool sent = position_ == instructions_.size();  // and not delivered
  engine.start(execution, spaces_, arithmetic_, envelope_, lane_, sent ? 0 : position(), sent);
}

// A message is the caller's again when its receive has accepted it.
bool Program::delivered() const {
  return lane_ == Lane::kCollective ||
         std::all_of(senders_.begin(), senders_.end(),
                     [](QuickLane* quick) { return quick->delivered(); });
}

Program::Stop Program::run() {
  const size_t end = instructions_.size();
  for (size_t& position = position_; position < end; ++position) {
    Instruction& instruction = instructions_[position];
    const Step& step = *instruction.step;
    if (instruction.quick == nullptr) {
      run_local_step(step, spaces_, arithmetic_, *kernels_);
      continue;
    }
    Transfer& transfer = instruction.transfer;
    transfer.envelope.call = envelope_.call;
    place(transfer, step, spaces_);
    if (step.op == Op::kSend) {
      const auto departure = instruction.quick->send(transfer.memory, transfer.envelope);
      if (departure == QuickLane::Departure::kNoRoom) {
        instruction.quick->progress();
        return Stop::kWaits;
      }
      if (departure == QuickLane::Departure::kOther) return Stop::kOther;
    } else {
      auto arrival = instruction.quick->receive(transfer);
      if (arrival == QuickLane::Arrival::kNotThere && instruction.quick->progress())
        arrival = instruction.quick->receive(transfer);
      if (arrival == QuickLane::Arrival::kNotThere) return Stop::kWaits;
      if (arrival == QuickLane::Arrival::kOther) return Stop::kOther;
    }
  }
  if (more_) return Stop::kDone;
  for (QuickLane* quick : receivers_) quick->acknowledge();
  if (!delivered()) return Stop::kWaits;
  for (const QuickLane* quick : senders_) quick->prepare_likely();
  return Stop::kDone;
}

}  // namespace banyan
