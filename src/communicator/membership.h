// One rank's place in a communicator: its engine, its plans, its failure, and the thread that
// serves it while the caller does something else.
//
// Whoever waits drives: the calling thread holds the baton and runs the engine without a lock. Only
// operations that nobody waits on are handed to the service thread, which gives the baton back as
// soon as it is wanted. One thread at a time may call, except for abort() and failure().
//
//   Result<std::unique_ptr<Membership>> joined = assemble(exchange, settings, deadline);
//   Membership* membership = joined->get();
//   membership->take_baton();
//   const auto plan = membership->plan(call);  // built for the first call of its kind
//   Result<Operation*> operation = membership->start(plan, call);
//   const Status status = drive({&membership, 1}, {&*operation, 1});  // leaves the baton (drive.h)
//   membership->finish(*operation);
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "banyan/status.h"
#include "src/base/own_sockets.h"
#include "src/communicator/call.h"
#include "src/communicator/settings.h"
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

class Membership {
 public:
  // `engine` is connected; the board is shared with the other ranks of the host. The hierarchy is
  // the same on all ranks.
  Membership(Settings settings, Links links, VerdictBoard board, Bells bells,
             std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
             Medium medium, Hierarchy hierarchy);
  ~Membership();
  // The thread that serves it and does nothing before open(), since what comes over the links may
  // be for those that still connect. kSystem: there is none to be had.
  Status start_service();
  // All ranks have all that they need: this one may be used.
  void open();

  int rank() const { return links_.rank; }
  int size() const { return links_.size; }
  const Settings& settings() const { return settings_; }
  const Links& links() const { return links_; }
  Medium medium() const { return medium_; }
  // How the ranks lie, simplified().
  const Hierarchy& hierarchy() const { return hierarchy_; }
  // Null: its links were not measured, or there is none.
  const MeasuredNetwork* measured() const {
    return settings_.measured ? &*settings_.measured : nullptr;
  }
  Failure& failure() { return failure_; }
  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  ScratchPool& scratch() { return scratch_; }
  bool one_host() const;
  // Names the transports that messages of this rank take, most preferred first: "shm,ucx", "none".
  std::string transport_names() const;
  std::shared_ptr<Plan> plan(const Call& call) {
    return plans_.find_or_build(call.problem, call.algorithm, call.parameters);
  }
  // From now on, calls are in the log as its levels have it, or not at all but for their failures.
  // Requires the baton.
  void log_calls(bool wanted) {
    trace_.mute(!wanted);
    plans_.tell(wanted);
  }
  // Whether the log has anything of calls that end well.
  bool logs_calls() const {
    return trace_.on() || settings_.log.enabled(Subsystem::kPlan, LogLevel::kInfo);
  }
  const Trace& trace() const { return trace_; }
  // In place of those of the settings. Requires that the communicator is at rest.
  void use_rules(const Rules& rules) {
    settings_.rules = rules;
    plans_.use_rules(rules);
  }
  // Takes an operation of the plan and all memory that it needs; where there is none, gives up.
  // Requires the baton, as what follows.
  Result<Operation*> prepare(const std::shared_ptr<Plan>& plan, const Call& call);
  void launch(Operation* operation, const Call& call) noexcept;
  Result<Operation*> start(const std::shared_ptr<Plan>& plan, const Call& call);
  // Ends its use: after it is done, after a failure, or before its launch.
  void finish(Operation* operation);
  // This rank cannot take part in a call that others may have begun: SYSTEM for all of them, which
  // stands when this returns. The result is the failure of the communicator.
  Status give_up(std::string_view why);
  bool busy() const { return !engine_.idle(); }
  // TIMEOUT, naming whom it waits for, where something that runs is past its deadline.
  void check_deadline(TimePoint now);

  // Null: the plan fits no program. Those of scaled operations fit none, and none does where calls
  // are traced. Requires that the communicator is at rest.
  std::unique_ptr<QuickCall> prepare_quick(const std::shared_ptr<Plan>& plan);
  // Requires that the communicator is at rest. `more`: see Program.
  void begin(QuickCall& quick, const void* send, void* recv, bool more = false);  // quick_call.h
  // The engine takes over where the program stands.
  void hand_over(QuickCall& quick);
  // The caller holds the baton, and nothing is under way.
  bool at_rest() const { return !left_ && engine_.idle(); }
  void take_baton();
  // Gives it to the service thread where operations are in flight, or bytes of those that are done
  // have not left.
  void leave_baton();
  // The same after a quick call.
  void leave_quickly() {
    if (is_network(medium_)) leave_baton();
  }
  // One turn; true: something moved. Troubles become the verdict, and then the status is it.
  Result<bool> turn();
  // After a turn without success for long: looks for ranks that make another call.
  void look_around();
  // Sleeps until something may have happened, at most so long.
  void sleep(int most_ms);
  // Begins a wait of the caller.
  Wait wait() { return Wait(patience_, &places_); }
  void abort();  // any thread
  // For the caller while it waits for something else than this communicator: ends with its failure.
  Watch watch();
  // After the last collective: everything posted has left, and the others know that we leave.
  Status depart(TimePoint deadline);
  Result<void*> allocate(size_t bytes);
  Status release(void* memory);

 private:
  Arithmetic arithmetic_of(const Problem& problem) const;
  uint32_t& next_number(const Problem& problem);
  Envelope next_envelope(const Plan& plan);
  bool settled() const;  // all that was posted leaves without another turn
  void serve();
  void serve_background();
  void wake_service() const;
  void wake_caller() const;
  std::string_view doze(std::span<const int> also, int most_us);
  std::string_view waker_of(std::span<const pollfd> waited) const;
  void report(const Verdict& verdict);
  void trouble(const Trouble& found);
  void time_out();
  void say_waiting();

  Settings settings_;
  Trace trace_{settings_.log};
  Medium medium_;
  Hierarchy hierarchy_;
  Links links_;
  OwnSockets own_sockets_;
  Failure failure_;
  Monitor monitor_;
  Engine engine_;
  PlanCache plans_;
  ScratchPool scratch_;
  std::vector<CacheLine> quick_scratch_;  // of all quick calls: one at a time is under way
  size_t prepared_ = 0;                   // operations that are not launched
  std::map<void*, size_t> plain_memory_;  // of allocate(), where no transport gave any
  std::map<void*, Transport*> transport_memory_;
  std::vector<uint32_t> messages_out_;  // numbers of the next message to and from each rank
  std::vector<uint32_t> messages_in_;
  uint32_t next_call_ = 0;
  Patience patience_;
  Places places_;
  Patience service_patience_{Patience::Core::kShared, 0};
  bool said_waiting_ = false;
  TimePoint grace_ends_;  // of operations that may still end well after a failure
  uint32_t spared_before_ = 0;

  Bells bells_;
  std::binary_semaphore baton_{0};  // the caller holds it at first
  bool left_ = false;               // the caller gave it away
  std::atomic<bool> wanted_{false};
  std::atomic<bool> alert_{false};  // the service thread knows that it may take the baton
  std::atomic<bool> open_{false};
  std::atomic<bool> stop_{false};
  std::vector<pollfd> sleep_descriptors_;  // of the caller
  std::thread service_;
};

}  // namespace banyan
