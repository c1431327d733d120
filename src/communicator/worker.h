// What one thread at a time may touch of a communicator: its engine, its plans, its numbers, its
// memory. Whoever has a Driver (driver.h) has it, and nobody else.
//
//   Driver driver(membership);  // waits until the thread that serves it gives it back
//   const auto plan = driver->plan(call);  // built for the first call of its kind
//   Result<Operation*> operation = driver->start(plan, call);
//   const Status status = drive({&driver, 1}, {&*operation, 1});  // drive.h
//   driver->finish(*operation);
//
// Source of the name: UCP's worker, which is a context of progress for one thread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "compression/codecs.h"
#include "src/base/own_sockets.h"
#include "src/communicator/call.h"
#include "src/communicator/settings.h"
#include "src/cuda/copy_work.h"
#include "src/engine/engine.h"
#include "src/engine/patience.h"
#include "src/engine/places.h"
#include "src/engine/plans.h"
#include "src/engine/scratch.h"
#include "src/engine/trace.h"
#include "src/liveness/failure.h"
#include "src/liveness/links.h"
#include "src/liveness/monitor.h"
#include "topology/hierarchy.h"
#include "transports/transport.h"

namespace banyan {

struct QuickCall;

struct alignas(64) CacheLine {
  std::array<std::byte, 64> bytes;
};

// How a communicator's threads wake each other (bell.h).
struct Bells {
  Descriptor service;
  Descriptor caller;  // for the caller that sleeps
};

class Worker {
 public:
  // What all threads of a communicator may look at, and outlives this.
  struct Surroundings {
    Settings& settings;
    const Links& links;
    Medium medium;
    const Hierarchy& hierarchy;
    const MeasuredNetwork* measured;  // null: its links were not measured, or there is none
    Failure& failure;
    Monitor& monitor;
    const Bells& bells;
  };

  // `transports` are connected.
  Worker(const Surroundings& around, std::vector<std::unique_ptr<Transport>> transports,
         std::vector<int> routes);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  const Trace& trace() const { return trace_; }
  std::shared_ptr<Plan> plan(const Call& call) {
    // A GPU that is not open yet may change what is done.
    if (call.problem.staging.any() &&
        (copies_ == nullptr || has_direct_messages_ || !call.problem.compression.is_exact()))
      return plan_on_devices(call);
    return plans_.find_or_build(call.problem, call.algorithm, call.parameters);
  }
  // From now on, calls are in the log as its levels have it, or not at all but for their failures.
  void log_calls(bool wanted) {
    trace_.mute(!wanted);
    plans_.tell(wanted);
  }
  // Whether the log has anything of calls that end well.
  bool logs_calls() const {
    return trace_.on() || around_.settings.log.enabled(Subsystem::kPlan, LogLevel::kInfo);
  }
  // In place of those of the settings. Requires that nothing is under way.
  void use_rules(const Rules& rules) {
    around_.settings.rules = rules;
    plans_.use_rules(rules);
  }
  // In place of that of the settings, for calls that ask for none. Requires the same.
  void use_compression(const Compression& compression) {
    around_.settings.compression = compression;
  }
  // In place of the library's: those that calls number from now on. They outlive it. Requires that
  // nothing is under way.
  void use_codecs(std::span<const Codec> codecs) {
    gpus_have_codecs_ = codecs.data() == banyan::codecs().data();
    plans_.use_codecs(codecs);
    engine_.use_codecs(codecs);
  }
  // Takes an operation of the plan and all memory that it needs; where there is none, gives up.
  Result<Operation*> prepare(const std::shared_ptr<Plan>& plan, const Call& call);
  void launch(Operation* operation, const Call& call) noexcept;
  Result<Operation*> start(const std::shared_ptr<Plan>& plan, const Call& call);
  // Ends its use: after it is done, after a failure, or before its launch.
  void finish(Operation* operation);
  // This rank cannot take part in a call that others may have begun: SYSTEM for all of them, which
  // stands when this returns. The result is the failure of the communicator.
  Status give_up(std::string_view why);
  // The same by another code, and with the whole text.
  Status give_up(Code code, std::string_view text);
  // Whether calls may go by windows of GPUs: all ranks are here, and know of GPUs.
  bool may_have_windows() const;
  // The same inside hosts, of which there are several.
  bool may_have_windows_inside() const;
  // No call comes any more but finalize, which all ranks begin after this.
  void leave_windows();
  uint64_t calls_by_windows() const { return copies_ == nullptr ? 0 : copies_->calls_by_windows(); }
  // What a message of this rank to itself is, in memory of the host or of GPUs.
  Status copy_own(const Call& send, const Call& receive, size_t bytes);
  bool busy() const { return !engine_.idle(); }
  // TIMEOUT, naming whom it waits for, where something that runs is past its deadline.
  void check_deadline(TimePoint now);

  // Null: the plan fits no program. Those of scaled operations fit none, and none does where calls
  // are traced. Requires that nothing is under way.
  std::unique_ptr<QuickCall> prepare_quick(const std::shared_ptr<Plan>& plan);
  // Requires that nothing is under way. `more`: see Program.
  void begin(QuickCall& quick, const void* send, void* recv, bool more = false);  // quick_call.h
  // The engine takes over where the program stands.
  void hand_over(QuickCall& quick);

  // One turn; true: something moved. Troubles become the verdict, and then the status is it.
  Result<bool> turn();
  // After a turn without success for long: looks for ranks that make another call.
  void look_around();
  // Sleeps until something may have happened, at most so long.
  void sleep(int most_ms);
  // Sleeps until somebody wakes it or the communicator fails. Requires that nothing is under way
  // and that all has left: what peers send meanwhile stays where it is.
  void rest();
  // Ends a sleep or a rest, or the next one. Any thread.
  void wake() const;
  // Begins a wait of the caller.
  Wait wait() { return Wait(patience_, &places_); }
  // All that was posted leaves without another turn.
  bool settled() const;
  // For the ranks that look for whom everybody waits. It stands until something moves.
  void say_waiting();
  // Tells what ended a wait for these descriptors: the first that is ready of the bell, the
  // engine's in their order, and the links.
  std::string_view waker_of(std::span<const pollfd> waited) const;

  // After the last collective: everything posted has left, and the others know that we leave.
  Status depart(TimePoint deadline);
  Result<void*> allocate(size_t bytes);
  Status release(void* memory);

 private:
  std::string unable(std::string_view why) const;
  Arithmetic arithmetic_of(const Problem& problem) const;
  uint32_t& next_number(const Problem& problem);
  Envelope next_envelope(const Plan& plan);
  CopyWork::WindowRanks window_ranks() const;
  Status open_devices(const Problem& problem, const Call& call);
  std::vector<int> wrap_for_gpus();
  void use_direct_messages();
  std::shared_ptr<Plan> plan_on_devices(const Call& call);
  void tell_news_of_windows() const;
  ScratchPool& scratch_of(const Plan& plan) {
    return plan.problem.staging.any() ? *staging_memory_ : scratch_;
  }
  int rank() const { return around_.links.rank; }
  void report(const Verdict& verdict);
  void trouble(const Trouble& found);
  void time_out();

  const Surroundings around_;
  Trace trace_{around_.settings.log};
  Engine engine_;
  PlanCache plans_;
  ScratchPool scratch_;
  CopyWork* copies_ = nullptr;                 // the engine's; null: no call needed it yet
  bool has_direct_messages_ = false;           // from and to GPUs, where transports carry them
  bool gpus_have_codecs_ = true;               // those that calls number
  std::optional<ScratchPool> staging_memory_;  // pinned, of plans that stage
  std::vector<CacheLine> quick_scratch_;       // of all quick calls: one at a time is under way
  size_t prepared_ = 0;                        // operations that are not launched
  std::map<void*, size_t> plain_memory_;       // of allocate(), where no transport gave any
  std::map<void*, Transport*> transport_memory_;
  std::vector<uint32_t> messages_out_;  // numbers of the next message to and from each rank
  std::vector<uint32_t> messages_in_;
  uint32_t next_call_ = 0;
  Patience patience_;
  Places places_;
  bool said_waiting_ = false;
  TimePoint grace_ends_;  // of operations that may still end well after a failure
  uint32_t spared_before_ = 0;
  std::vector<pollfd> sleep_descriptors_;  // of the caller
};

}  // namespace banyan
