// Executes schedules over transports. This is the only code that knows both what a Step is and what
// a Transport is.
//
// Each direction to each peer is a port with a queue of its own, so a busy port never blocks
// another. Operations use a port in the order in which they were started, and within an operation
// in program order. That is the same on all ranks, which is why messages need no tags. An engine
// belongs to whoever drives it: one thread at a time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"
#include "banyan/status.h"
#include "compression/kernels.h"
#include "src/base/clock.h"
#include "src/engine/steps.h"
#include "transports/transport.h"

namespace banyan {

class Execution;

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

// One run of one schedule. Made once and restarted: starting allocates nothing.
class Execution {
 public:
  // The schedule must outlive the execution.
  explicit Execution(const Schedule& schedule);

  bool done() const { return remaining_ == 0; }
  // It counts as done after a failure, and is not.
  bool cancelled() const { return cancelled_; }
  const Envelope& envelope() const { return envelope_; }

  // Set before it is started.
  TimePoint deadline = TimePoint::max();
  double timeout_s = 0;              // how long before the deadline it began
  std::string_view timeout_from;     // what has set that; outlives it
  const Problem* problem = nullptr;  // for who speaks of it; outlives it
  Hook* hook = nullptr;              // of this run; outlives it; null: nobody hears of its end

 private:
  friend class Engine;

  // This operation's turn at a port: steps port_steps[cursor, end) are still to be posted.
  struct Turn {
    Execution* execution = nullptr;
    Turn* next = nullptr;  // the turn of the operation started after this one
    uint32_t cursor = 0;
    uint32_t end = 0;
  };

  const Schedule& schedule_;
  std::vector<uint32_t> waiting_for_;
  std::vector<uint8_t> finished_;
  std::vector<Turn> turns_;      // one for each of schedule_.ports
  std::vector<uint32_t> ready_;  // local steps that may run, a stack with room for all of them
  size_t remaining_ = 0;
  bool cancelled_ = false;
  Usage usage_;  // but for what differs from step to step
  Spaces spaces_;
  Arithmetic arithmetic_;
  Envelope envelope_;  // without bytes
  Lane lane_ = Lane::kCollective;
  bool sent_ = false;   // its only step was, by a quick lane
  uint64_t order_ = 0;  // among all that were started
  uint32_t slot_ = 0;   // place in Engine::running_
};

// Why an operation cannot go on. Code kOk: nothing is wrong.
struct Trouble {
  Code code = Code::kOk;
  int peer = -1;
  Envelope expected;  // kMismatch: ours and theirs
  Envelope seen;
  std::string text;

  explicit operator bool() const { return code != Code::kOk; }
};

class Trace;

class Engine {
 public:
  // routes[r]: which of `transports` carries messages to rank r; the own entry is ignored.
  Engine(std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
         const Kernels& kernels);

  // From now on messages are told, and none goes past the queues. The trace outlives the engine.
  void tell(const Trace& trace);

  // For so many executions more than are running: starting them allocates nothing.
  void make_room(size_t executions);
  // The execution must not be running, and stays where it is until it is done or cancelled. The
  // first `steps_done` steps count as done: a program ran them (program.h). `sent`: the program
  // sent the only step, a message, and what is left is to hear that the peer has taken it.
  void start(Execution& execution, const Spaces& spaces, const Arithmetic& arithmetic,
             const Envelope& envelope, Lane lane, uint32_t steps_done = 0, bool sent = false);

  // Runs what can run, without waiting; true: something moved.
  Result<bool> progress(Trouble& trouble);

  // After a failure: forgets all running operations, whose memory is the caller's again. Peers may
  // still read it (process_vm_readv), but nobody writes it.
  void cancel();
  bool idle() const { return running_count_ == 0; }
  // How many executions were begun that had anything to do. Calls that programs run to their ends
  // are none.
  uint64_t started() const { return started_; }

  // Finds a peer at the head of whose lane waits a message of another call than the running one of
  // that number. Ranks that have waited long ask for it.
  Trouble find_other_call() const;
  // Whether a collective call with a lower number is running.
  bool has_call_before(uint32_t call) const;
  // The earliest of what is running.
  TimePoint deadline() const;
  // Finds what has the earliest deadline, of several the one started first. Null: nothing runs.
  const Execution* most_urgent() const;
  // The peer that it waits for; -1: none.
  int waiting_for() const;

  std::span<const std::unique_ptr<Transport>> transports() const { return transports_; }
  Transport& transport_to(int peer) {
    return *transports_[static_cast<size_t>(routes_[static_cast<size_t>(peer)])];
  }
  std::span<const int> routes() const { return routes_; }
  const Kernels& kernels() const { return kernels_; }
  // Counts the cores of this host's ranks; 0: no transport knows.
  int cores() const { return cores_; }

 private:
  struct PortQueue {
    Execution::Turn* head = nullptr;
    Execution::Turn* tail = nullptr;
    bool listed = false;  // in postable_
  };

  size_t port_index(int peer, bool sending, Lane lane) const {
    return (static_cast<size_t>(peer) * 2 + (sending ? 1 : 0)) * kLaneCount +
           static_cast<size_t>(lane);
  }
  void queue_messages(Execution& execution, uint32_t steps_done);
  void list(size_t port);
  void offer(Execution& execution, uint32_t step);
  void complete(Execution& execution, uint32_t step);
  bool run_local();
  bool post_all(Trouble& trouble);
  bool post_port(size_t port, Trouble& trouble);
  Transfer transfer_for(const Execution& execution, uint32_t step) const;
  bool moves_at_once(const Transfer& transfer) const;
  Result<bool> collect(Trouble& trouble);

  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> routes_;
  std::vector<QuickLane*> quick_lanes_;  // by peer; null: none
  const Trace* trace_ = nullptr;         // null: nothing is told
  const Kernels& kernels_;
  int cores_ = 0;
  std::vector<PortQueue> ports_;
  std::vector<uint32_t> postable_;   // ports whose head may be posted
  std::vector<uint32_t> retry_;      // scratch of post_all
  std::vector<Execution*> running_;  // null: free place
  std::vector<Execution*> with_local_work_;
  size_t running_count_ = 0;
  uint64_t started_ = 0;
  std::array<Completion, 32> completions_;  // scratch of collect: 2 KiB not to be cleared each time
};

}  // namespace banyan
