// One run of one schedule, and what it may wait for and tell.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"
#include "src/base/clock.h"
#include "src/engine/local_work.h"
#include "src/engine/steps.h"
#include "transports/transport.h"

namespace banyan {

class Execution;

// Keeps an execution from beginning: nothing of it happens before it is open. An open gate stays
// open. It belongs to the thread that drives.
class StartGate {
 public:
  virtual ~StartGate() = default;
  virtual bool is_open() = 0;
  // Readable when it is open, for a sleep.
  virtual int descriptor() const = 0;

 protected:
  StartGate() = default;
  StartGate(const StartGate&) = default;
  StartGate& operator=(const StartGate&) = default;
};

// Hears that an execution has ended, well or not. It is told by the thread that drives, in the
// middle of a turn: it may not touch the engine. Nobody touches the execution after it.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void ended(const Execution& execution) = 0;

 protected:
  Hook() = default;
  Hook(const Hook&) = default;
  Hook& operator=(const Hook&) = default;
};

// Made once and restarted: starting allocates nothing.
class Execution {
 public:
  // The schedule must outlive the execution.
  explicit Execution(const Schedule& schedule);

  bool done() const { return remaining_ == 0; }
  // It counts as done after a failure, and is not.
  bool cancelled() const { return cancelled_; }
  const Envelope& envelope() const { return envelope_; }
  // In its last run; before it, at most.
  uint64_t bytes_sent() const;
  // In which codecs worked, in its last run, where its problem keeps what they leave.
  Clock::duration codec_time() const { return codec_time_; }

  // Set before it is started.
  TimePoint deadline = TimePoint::max();  // with a gate: set when that opens, by timeout_s
  double timeout_s = 0;                   // how long before the deadline it began
  std::string_view timeout_from;          // what has set that; outlives it
  const Problem* problem = nullptr;       // for who speaks of it; outlives it
  StartGate* gate = nullptr;              // of this run; outlives it; null: it may begin at once
  const Chance* chance = nullptr;         // likewise; null: its codecs go by its number
  Hook* hook = nullptr;                   // of this run; outlives it; null: nobody hears of its end

 private:
  friend class Engine;

  // This operation's turn at a port: steps port_steps[cursor, end) are still to be posted.
  struct Turn {
    Execution* execution = nullptr;
    Turn* next = nullptr;  // the turn of the operation started after this one
    uint32_t cursor = 0;
    uint32_t end = 0;
  };

  // It is of the branch by which the call does not go.
  bool skips(const Step& step) const {
    return step.branch != Branch::kAlways && step.branch != branch_;
  }
  bool has_local_work() const { return next_ready_ != ready_.size(); }
  LocalStep local(const Step& step) const {
    const Chance chosen = chance != nullptr ? *chance : Chance{envelope_.call};
    return {step,
            spaces_,
            arithmetic_,
            message_bytes_[slot_read_by(step)],
            schedule_.codings,
            chosen,
            schedule_.delegations};
  }
  LocalWork::End run(const Step& step, LocalWork& work, uint64_t cookie);

  const Schedule& schedule_;
  std::vector<uint32_t> waiting_for_;
  std::vector<uint8_t> finished_;
  std::vector<Turn> turns_;              // one for each of schedule_.ports
  std::vector<uint32_t> ready_;          // the local steps that could run, in that order, ...
  size_t next_ready_ = 0;                // ... of which those before this one were begun
  Execution* next_with_work_ = nullptr;  // in the engine's queue
  std::vector<uint64_t> message_bytes_;  // by wire slot: of the message in it
  size_t remaining_ = 0;
  bool cancelled_ = false;
  Branch branch_ = Branch::kAlways;  // once it is decided
  bool plain_;                       // all of its steps are
  Usage usage_;                      // but for what differs from step to step
  Spaces spaces_;
  Arithmetic arithmetic_;
  Envelope envelope_;  // without bytes
  Lane lane_ = Lane::kCollective;
  bool sent_ = false;  // its only step was, by a quick lane
  Clock::duration codec_time_{};
  uint64_t order_ = 0;  // among all that were started
  uint32_t slot_ = 0;   // place in Engine::running_
};

inline LocalWork::End Execution::run(const Step& step, LocalWork& work, uint64_t cookie) {
  const bool timed = step.codec != kNoCodec && problem != nullptr && problem->keeps_left;
  const TimePoint begin = timed ? Clock::now() : TimePoint();
  const LocalWork::End end = work.run(local(step), cookie);
  if (timed) codec_time_ += Clock::now() - begin;
  return end;
}

inline uint64_t Execution::bytes_sent() const {
  uint64_t bytes = 0;
  for (const Step& step : schedule_.steps) {
    if (step.op != Op::kSend || skips(step)) continue;
    const uint64_t said = step.src.is_slot() ? message_bytes_[step.src.slot] : 0;
    bytes += said != 0 ? said : step.src.size;
  }
  return bytes;
}

}  // namespace banyan
