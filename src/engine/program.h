// A program is a schedule of small messages, lowered for transports with quick lanes: its steps one
// after another in program order, without queues, counters or completions. What a step costs is its
// copy or sum and a cache line.
//
// A program does what is easy. It stops where a message has not come, where there is no room for
// one, and where something unexpected has come. Whoever runs it may run it on later, or let the
// engine take over at that step, which waits, sleeps and diagnoses. Messages look the same either
// way, so each rank decides for itself. Program order may wait longer than the dependencies
// require. That is harmless for the same reason.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/schedule.h"
#include "src/engine/engine.h"
#include "src/engine/steps.h"
#include "transports/quick_lane.h"

namespace banyan {

class Program {
 public:
  // Gives nothing where the schedule does not fit: a long message, many steps, a peer without a
  // quick lane. `envelope` comes without call and length. Schedule and engine must outlive the
  // program.
  static std::optional<Program> lower(const Schedule& schedule, const Arithmetic& arithmetic,
                                      const Envelope& envelope, Engine& engine,
                                      Lane lane = Lane::kCollective);

  // Begins at the first step, as the call of that number. The engine must be idle, and stays so
  // until the program is done or handed over. Where `more` follow in the same lane to the same
  // peers, what is sent need not have been taken when it is done, nor what was taken be said to be.
  void begin(const Spaces& spaces, uint32_t call, bool more = false) {
    spaces_ = spaces;
    position_ = 0;
    envelope_.call = call;
    more_ = more;
  }
  // kWaits: run it again later. kOther: only the engine can go on.
  enum class Stop : uint8_t { kDone, kWaits, kOther };
  Stop run();
  // The steps before this one are done.
  uint32_t position() const { return static_cast<uint32_t>(position_); }
  // After kWaits: the peer whose message it has no room for or that has not come.
  int waiting_for() const {
    return instructions_[std::min(position_, instructions_.size() - 1)].step->peer;
  }
  // The engine goes on from there.
  void hand_over(Engine& engine, Execution& execution) const;

 private:
  struct Instruction {
    const Step* step = nullptr;
    QuickLane* quick = nullptr;  // null: a local step
    Transfer transfer;           // of a message
  };

  Program(std::vector<Instruction> instructions, const Arithmetic& arithmetic,
          const Envelope& envelope, const Kernels& kernels, Lane lane)
      : instructions_(std::move(instructions)),
        arithmetic_(arithmetic),
        envelope_(envelope),
        kernels_(&kernels),
        lane_(lane) {
    for (const Instruction& instruction : instructions_) {
      if (instruction.step->op == Op::kSend) senders_.push_back(instruction.quick);
      if (instruction.step->op == Op::kRecv && lane == Lane::kMessage)
        receivers_.push_back(instruction.quick);
    }
  }

  bool delivered() const;

  std::vector<Instruction> instructions_;
  std::vector<QuickLane*> senders_;    // by which it sends
  std::vector<QuickLane*> receivers_;  // whose peers wait until what they sent is taken
  Arithmetic arithmetic_;
  Envelope envelope_;
  const Kernels* kernels_;
  Lane lane_;
  Spaces spaces_;
  size_t position_ = 0;
  bool more_ = false;
};

}  // namespace banyan
