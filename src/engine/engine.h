// Executes schedules over transports. This is the only code that knows both what a Step is and what
// a Transport is.
//
// Each direction to each peer is a port with a queue of its own, so a busy port never blocks
// another. Operations use a port in the order in which they were started, and within an operation
// in program order. That is the same on all ranks, which is why messages need no tags. An engine
// belongs to whoever drives it: one thread at a time.
//
// Local steps run in the order in which they could, the running operations by turns, so much in a
// turn that what is ready meanwhile leaves soon.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "compression/kernels.h"
#include "src/base/clock.h"
#include "src/engine/execution.h"
#include "src/engine/local_work.h"
#include "src/engine/steps.h"
#include "transports/transport.h"

namespace banyan {

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
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Those that schedules number; they outlive the engine.
  void use_codecs(std::span<const Codec> codecs) { host_.use_codecs(codecs); }

  // Steps on that memory are run by `work` from now on, and its messages go by those routes, -1
  // where there is none. Without them the host's kernels and the routes of the constructor serve
  // what the host can touch, and nothing serves kDevice.
  void serve(MemoryKind kind, std::unique_ptr<LocalWork> work, std::vector<int> routes);
  // Whether calls on such memory can be made: somebody runs their steps, and each peer has a route.
  bool serves(MemoryKind kind) const { return served_[static_cast<size_t>(kind)]; }

  // Puts another around one of the transports, which it begins with.
  template <typename Around>
  void wrap(size_t transport, const Around& around) {
    transports_[transport] = around(std::move(transports_[transport]));
  }

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

  // For a sleep: adds the descriptors that become readable when a turn may do something. False: it
  // may do something now. Either way disarm() follows.
  bool arm(std::vector<pollfd>& descriptors);
  void disarm();
  // Names what the descriptor is of that arm() added at that place. Behind them are links.
  std::string_view name_of_armed(size_t index) const;

  std::span<const std::unique_ptr<Transport>> transports() const { return transports_; }
  Transport& transport_to(int peer, MemoryKind kind = MemoryKind::kHost) {
    const auto index = static_cast<size_t>(peer);
    return *transports_[static_cast<size_t>(routes_[static_cast<size_t>(kind)][index])];
  }
  // Those of the host's memory.
  std::span<const int> routes() const { return routes_.front(); }
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
  bool finds_all(MemoryKind kind) const;
  void queue_messages(Execution& execution, uint32_t steps_done);
  void list(size_t port);
  bool has_local_work() const { return first_with_work_ != nullptr; }
  void queue_local_work(Execution& execution);
  void offer(Execution& execution, uint32_t step);
  void complete(Execution& execution, uint32_t step);
  void open_gates();
  bool run_local(Trouble& trouble);
  bool collect_local(Trouble& trouble);
  void end_local(const LocalWork::End& end, Trouble& trouble);
  bool post_all(Trouble& trouble);
  bool post_port(size_t port, Trouble& trouble);
  Transfer transfer_for(const Execution& execution, uint32_t step) const;
  bool moves_at_once(const Transfer& transfer) const;
  Result<bool> collect(Trouble& trouble);

  std::vector<std::unique_ptr<Transport>> transports_;
  std::array<std::vector<int>, kMemoryKindCount> routes_;
  HostWork host_;
  std::vector<std::unique_ptr<LocalWork>> other_work_;
  std::array<LocalWork*, kMemoryKindCount> work_{};  // null: nobody
  bool only_kernels_ = true;                         // all of it is the host's
  std::array<bool, kMemoryKindCount> served_{};
  std::vector<QuickLane*> quick_lanes_;  // by peer, for memory of the host; null: none
  const Trace* trace_ = nullptr;         // null: nothing is told
  const Kernels& kernels_;
  int cores_ = 0;
  std::vector<PortQueue> ports_;
  std::vector<uint32_t> postable_;        // ports whose head may be posted
  std::vector<uint32_t> retry_;           // scratch of post_all
  std::vector<Execution*> running_;       // null: free place
  Execution* first_with_work_ = nullptr;  // those that have local work take turns
  Execution* last_with_work_ = nullptr;
  std::vector<Execution*> gated_;  // those that wait for their gates
  size_t armed_ = 0;
  size_t running_count_ = 0;
  uint64_t started_ = 0;
  std::array<Completion, 32> completions_;  // scratch of collect: 2 KiB not to be cleared each time
};

}  // namespace banyan
