// A thread that has a communicator for itself: it makes the calls that other threads submit.
//
//   Result<std::unique_ptr<Owner>> owner = Owner::start(Driver(membership));
//   Result<Submission> sum = (*owner)->submit(call);  // kBusy: too many are under way
//   // ... other work, other calls ...
//   sum->wait();
//   const Status status = sum->status();
//
// Calls are started in the order in which they were submitted, several are under way at once, and
// they may end in any order. All ranks must submit the same collective calls in the same order:
// where several threads of a rank submit, it is on them to agree on it. The memory that a call
// names stays as it is until the call is done.
//
// The owner holds the Driver, so that no other thread can touch the communicator's worker, and the
// service thread never takes over. A caller that waits may help(): then it drives in the place of
// the owner's thread, and what ends is not passed from thread to thread. Failures and deadlines end
// the calls as they end blocking ones: each one gets an end.
//
// A listener hears of calls as they begin and end, by the owner's thread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/communicator/call.h"
#include "src/communicator/membership.h"
#include "src/liveness/verdict.h"

namespace banyan {

// A call that was submitted. Any thread may ask, also when the owner is gone.
class Submission {
 public:
  bool done() const;
  // Waits until it is done, at most until then. False: it is not.
  bool wait(TimePoint deadline = TimePoint::max()) const;
  // How the call ended. Requires that it is done.
  Status status() const;

 private:
  friend class Owner;
  class Record;

  explicit Submission(std::shared_ptr<Record> record) : record_(std::move(record)) {}

  std::shared_ptr<Record> record_;
};

class Owner {
 public:
  // Everything is told by the owner's thread, or one that helps it, which has no lock of a caller
  // then: it may submit, without waiting for room. Nothing is thrown but std::bad_alloc by
  // begins().
  class Listener {
   public:
    virtual ~Listener() = default;
    // Before it is decided how the call goes: where its buffers are may still be set.
    virtual void prepares(uint64_t /*tag*/, Call& /*call*/) {}
    // Right before the call is started: what its addresses name may still be written, and
    // Call::left and the like be set. A failure becomes the communicator's, by this rank, and the
    // call never starts.
    virtual Status begins(uint64_t tag, Call& call, const Schedule& schedule) = 0;
    // Once for each call with a tag, also for one that never began. `sent`: bytes to other ranks;
    // after a failure that and the time are 0.
    virtual void ended(uint64_t tag, const Status& status, uint64_t sent,
                       Clock::duration codec_time) = 0;
    // Once, when the communicator has failed and nothing is under way any more, or nothing was.
    virtual void failed(const Status& status) = 0;

   protected:
    Listener() = default;
    Listener(const Listener&) = default;
    Listener& operator=(const Listener&) = default;
  };

  static constexpr size_t kMost = 256;

  // At most `most` calls wait or are under way at once. The listener, if any, outlives the owner.
  // kSystem: there is no thread to be had.
  static Result<std::unique_ptr<Owner>> start(Driver driver, size_t most = kMost,
                                              Listener* listener = nullptr);
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  // Does what stop() does.
  ~Owner();

  // Ends its thread. What was submitted is done first, and what the listener submits when it hears
  // of that. Whoever has the membership may drive it afterwards.
  void stop();

  // Any thread. The call was checked, as others are; it has no place in the order before this
  // returns. Its gate and its hook are the owner's thread's until it is done. A failed communicator
  // takes calls, and ends them with its failure, of which their hooks do not hear.
  //
  //   kBusy          there was no room until the deadline, which by default has passed
  //   kInvalidUsage  it is a message to this rank itself
  //
  // With a tag, which needs a listener, that hears of it.
  Result<Submission> submit(Call call, TimePoint deadline = {}, std::optional<uint64_t> tag = {});

  // Does the owner's thread's work until `over` says that the caller has what it waits for, or
  // nothing is left to do. Where another caller helps, that goes on alone. Any thread; whatever is
  // told meanwhile, this one tells.
  void help(const std::function<bool()>& over);
  // A caller waits, or would have, for what is done already. The next one may help. Any thread.
  void note_waiter() { last_wait_.store(Clock::now()); }

  // This is the communicator's failure on all ranks, unless they have one: whatever is under way
  // ends with it, and those that rest hear of it. Any thread.
  void fail(const Verdict& verdict) { driver_.membership().fail(verdict); }

 private:
  using Record = Submission::Record;

  Owner(Driver driver, size_t most, Listener* listener);

  static constexpr Clock::duration kLeastNap = std::chrono::milliseconds(1);
  static constexpr Clock::duration kMostNap = std::chrono::milliseconds(8);
  static constexpr Clock::duration kSoon = std::chrono::microseconds(100);  // after a wait
  static constexpr Clock::duration kLately = std::chrono::milliseconds(1);
  static constexpr Clock::duration kShortHelp = std::chrono::microseconds(500);

  void run();
  template <typename Until>
  void drive(const Until& until);
  void nap();
  void end_nap();
  bool over() const;
  Record* next();
  void begin(Record& record);
  bool turn();
  void fail_for_memory();
  void settle();
  void end(Record& record, const Status& status, uint64_t sent = 0,
           Clock::duration codec_time = {});
  void tell_failure();
  template <typename Until>
  void sleep(const Until& until);
  bool resting() const {
    if (driver_->busy()) return false;
    return driver_->settled() || driver_.membership().failure().failed();
  }
  void wake();
  bool waited_within(Clock::duration time) const { return Clock::now() - last_wait_.load() < time; }

  std::mutex driving_;  // of what follows, up to ended_
  Driver driver_;
  Listener* listener_;  // null: nobody listens
  bool told_failure_ = false;
  std::vector<Record*> ended_;  // in this turn

  std::mutex mutex_;  // of what follows, up to queued_
  std::condition_variable room_;
  std::vector<std::shared_ptr<Record>> records_;
  std::vector<size_t> free_;    // places in records_
  std::vector<Record*> queue_;  // a ring
  size_t first_ = 0;            // in the ring
  std::atomic<size_t> queued_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};

  std::atomic<bool> helped_{false};  // by a caller
  std::atomic<bool> wanted_{false};  // the right to drive, by that caller
  std::atomic<uint32_t> helps_{0};
  std::atomic<TimePoint> last_wait_{TimePoint()};  // when it ended
  std::atomic<bool> napping_{false};
  std::mutex nap_mutex_;  // of awaited_
  std::condition_variable nap_ends_;
  bool awaited_ = false;  // back from a nap
  std::thread thread_;
};

}  // namespace banyan
