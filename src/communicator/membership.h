// One rank's place in a communicator: its links, its failure, its worker, and the thread that
// serves it while the caller does something else.
//
// Whoever waits drives: the calling thread has the Driver and runs the engine without a lock. What
// nobody waits on is left to the service thread (grace.h), which gives the right to drive back as
// soon as it is wanted. One thread at a time may call, except for abort() and failure().
//
//   Result<std::unique_ptr<Membership>> joined = assemble(exchange, settings, deadline);
//   Driver driver(**joined);
//   driver->start(...);  // worker.h
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "src/base/own_sockets.h"
#include "src/communicator/grace.h"
#include "src/communicator/settings.h"
#include "src/communicator/worker.h"
#include "src/liveness/failure.h"
#include "src/liveness/links.h"
#include "src/liveness/monitor.h"
#include "topology/hierarchy.h"
#include "transports/transport.h"

namespace banyan {

class Membership {
 public:
  // `transports` are connected; the board is shared with the other ranks of the host. The hierarchy
  // is the same on all ranks.
  Membership(Settings settings, Links links, VerdictBoard board, Bells bells,
             std::vector<std::unique_ptr<Transport>> transports, std::vector<int> routes,
             Medium medium, Hierarchy hierarchy);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
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
  bool one_host() const;
  // Whether calls may go by windows of GPUs (algorithms/peers.h).
  bool may_have_windows() const { return worker_.may_have_windows(); }
  bool may_have_windows_inside() const { return worker_.may_have_windows_inside(); }
  // What follows does not change once they are connected, so that any thread may ask.
  //
  // Names the transports that messages of this rank take, most preferred first: "shm,ucx", "none".
  std::string transport_names() const;
  // Tells how many cores the ranks of this host share, as the transports know; 0: they do not.
  int cores() const { return worker_.engine().cores(); }
  // What messages took when the ranks met; empty where no transport has measured it.
  MessageTimes message_times() const;

  void abort();  // any thread
  // This rank has found a failure outside its calls: all ranks hear of it. Any thread.
  void fail(const Verdict& verdict);
  // All ranks have failed elsewhere, and take that verdict over. Any thread.
  void adopt(const Verdict& verdict);
  // For the caller while it waits for something else than this communicator: ends with its failure.
  Watch watch();
  // The service thread has nothing to do, and nothing is under way: Driver::of_resting() will do.
  bool at_rest() const { return !left_ && worker_.engine().idle(); }

 private:
  friend class Driver;

  std::span<const std::unique_ptr<Transport>> transports() const {
    return worker_.engine().transports();
  }
  // Debug builds see to it that there is one Driver at a time.
  void claim([[maybe_unused]] bool driven) {
#ifndef NDEBUG
    const bool before = driven_.exchange(driven);
    assert(before != driven && "there is another Driver");
#endif
  }
  void take_baton();
  // Gives it to the service thread where operations are in flight, or bytes of those that are done
  // have not left.
  void leave_baton();
  void serve();
  bool comes_back_within(Clock::duration grace);
  bool take_over();
  void serve_background();
  void wake_service() const;
  void wake_caller() const;
  std::string_view doze(std::span<const pollfd> also, int most_us);

  Settings settings_;
  Medium medium_;
  Hierarchy hierarchy_;
  Links links_;
  OwnSockets own_sockets_;
  Failure failure_;
  Monitor monitor_;
  Bells bells_;
  Worker worker_;
  Patience service_patience_{Patience::Core::kShared, 0};

  std::binary_semaphore baton_{0};        // the caller holds it at first
  bool left_ = false;                     // the caller gave it away
  uint64_t started_ = 0;                  // by the engine, when the caller gave it away
  std::atomic<bool> after_start_{false};  // of something new, and not to test something again
  std::atomic<uint32_t> returns_{0};      // how often the caller came back for it
  std::atomic<bool> wanted_{false};
  std::atomic<bool> alert_{false};  // the service thread knows that it may take the baton
  std::atomic<bool> open_{false};
  std::atomic<bool> stop_{false};
#ifndef NDEBUG
  std::atomic<bool> driven_{false};
#endif
  std::thread service_;
};

// The right to drive a communicator: its worker is to be had by no other way. There is one at a
// time.
class Driver {
 public:
  // Waits until the service thread gives it back.
  explicit Driver(Membership& membership) : membership_(&membership) {
    membership.take_baton();
    membership.claim(true);
  }
  // Requires at_rest(): there is nothing to wait for.
  static Driver of_resting(Membership& membership) { return {membership, AtRest()}; }
  Driver(Driver&& other) noexcept : membership_(std::exchange(other.membership_, nullptr)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  Driver& operator=(Driver&&) = delete;
  // The service thread goes on with what is not done.
  ~Driver() {
    if (membership_ == nullptr) return;
    membership_->claim(false);
    membership_->leave_baton();
  }
  // Ends it after a quick call that is done: only over a network may bytes have to leave.
  void leave_quickly() {
    if (is_network(membership_->medium())) return;
    membership_->claim(false);
    membership_ = nullptr;
  }

  Membership& membership() const { return *membership_; }
  Worker* operator->() const { return &membership_->worker_; }

 private:
  struct AtRest {};
  Driver(Membership& membership, AtRest /*unused*/) : membership_(&membership) {
    membership.claim(true);
  }

  Membership* membership_;
};

}  // namespace banyan
