// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/owner.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "src/base/float_mode.h"
#include "src/base/thread.h"
#include "src/liveness/blame.h"

namespace banyan {
namespace {

template <typename Condition>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                TimePoint deadline, const Condition& condition) {
  if (deadline != TimePoint::max()) return changed.wait_until(lock, deadline, condition);
  changed.wait(lock, condition);
  return true;
}

}  // namespace

// It is used again once its call is done and nobody has it any more.
class Submission::Record final : public Hook {
 public:
  Record(std::vector<Record*>& all_ended, size_t its_place) : place(its_place), ended_(all_ended) {}

  void ended(const Execution& execution) override {
    if (told_ != nullptr) told_->ended(execution);
    ended_.push_back(this);
  }

  void begin_again(Call next, std::optional<uint64_t> its_tag) {
    const std::lock_guard lock(mutex_);
    call = std::move(next);
    tag = its_tag;
    told_ = std::exchange(call.hook, this);
    done_.store(false);
  }
  void end(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      status_ = status;
      done_.store(true);
    }
    changed_.notify_all();
  }
  bool done() const { return done_.load(); }
  bool wait(TimePoint deadline) const {
    std::unique_lock lock(mutex_);
    return wait_until(changed_, lock, deadline, [this] { return done_.load(); });
  }
  Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  const size_t place;  // in Owner::records_
  // The owner's thread has these until it has ended.
  Call call;
  std::optional<uint64_t> tag;
  Operation* operation = nullptr;

 private:
  std::vector<Record*>& ended_;
  Hook* told_ = nullptr;  // by the caller's wish
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> done_{false};
  Status status_;
};

bool Submission::done() const {
  return record_->done();
}

bool Submission::wait(TimePoint deadline) const {
  return record_->done() || record_->wait(deadline);
}

Status Submission::status() const {
  return record_->status();
}

Result<std::unique_ptr<Owner>> Owner::start(Driver driver, size_t most, Listener* listener) {
  std::unique_ptr<Owner> owner(new Owner(std::move(driver), most, listener));
  auto thread =
      start_thread("makes the calls that are submitted", [own = owner.get()] { own->run(); });
  if (!thread.ok()) return thread.status();
  owner->thread_ = std::move(*thread);
  return owner;
}

Owner::Owner(Driver driver, size_t most, Listener* listener)
    : driver_(std::move(driver)), listener_(listener), queue_(most) {
  ended_.reserve(most);
  free_.reserve(most);
  for (size_t place = 0; place < most; ++place) {
    records_.push_back(std::make_shared<Record>(ended_, place));
    free_.push_back(place);
  }
}

Owner::~Owner() {
  stop();
}

void Owner::stop() {
  stop_.store(true);
  wake();
  end_nap();
  if (thread_.joinable()) thread_.join();
}

// Whoever rests looks at what is queued after it has said that it is asleep.
void Owner::wake() {
  if (asleep_.exchange(false)) driver_->wake();
}

Result<Submission> Owner::submit(Call call, TimePoint deadline, std::optional<uint64_t> tag) {
  assert(!tag || listener_ != nullptr);
  if (is_message(call.problem.collective) && call.problem.root == driver_.membership().rank())
    return Status(Code::kInvalidUsage, "a message to this rank itself");
  std::unique_lock lock(mutex_);
  if (!wait_until(room_, lock, deadline, [this] { return !free_.empty(); }))
    return Status(Code::kBusy, "too many calls are under way");
  std::shared_ptr<Record>& record = records_[free_.back()];
  if (record.use_count() > 1) record = std::make_shared<Record>(ended_, free_.back());
  record->begin_again(std::move(call), tag);
  free_.pop_back();
  queue_[(first_ + queued_.load()) % queue_.size()] = record.get();
  queued_.fetch_add(1);
  Submission submission(record);
  lock.unlock();
  wake();
  if (napping_.load() && !waited_within(kSoon)) end_nap();
  return submission;
}

void Owner::run() {
  const DefaultFloatMode mode;  // for the listener, too
  std::unique_lock driving(driving_);
  while (!over()) {
    drive([this] {
      return over() || wanted_.load() ||
             (queued_.load() == 0 && resting() && waited_within(kLately));
    });
    driving.unlock();
    // Whoever waited for a helper's lock would be woken each time that one lets go of it.
    do nap();
    while (!driving.try_lock());
  }
}

// Whoever changes what `until` looks at wakes it afterwards, if it is asleep.
template <typename Until>
void Owner::sleep(const Until& until) {
  const bool rests = resting();
  if (!rests) {
    driver_->check_deadline(Clock::now());
    driver_->look_around();
  }
  asleep_.store(true);
  if (queued_.load() == 0 && !until()) {
    if (rests)
      driver_->rest();
    else
      driver_->sleep(
          std::max(1, milliseconds_until(driver_->engine().deadline(), kSaysAgain.count())));
  }
  asleep_.store(false);
}

template <typename Until>
void Owner::drive(const Until& until) {
  constexpr uint32_t kTurnsBetweenClocks = 64;  // a turn may move megabytes
  Wait wait = driver_->wait();
  for (uint32_t turns = 1; !until(); ++turns) {
    const bool moved = turn();
    settle();
    if (listener_ != nullptr) tell_failure();
    if (turns % kTurnsBetweenClocks == 0) driver_->check_deadline(Clock::now());
    if (moved) {
      wait.moved();
    } else if (resting() || !wait.linger()) {
      sleep(until);
      wait.slept();
    }
  }
}

void Owner::help(const std::function<bool()>& over) {
  if (helped_.exchange(true)) return;
  const TimePoint began = Clock::now();
  wanted_.store(true);
  wake();
  bool left = false;
  {
    const DefaultFloatMode mode;
    const std::lock_guard driving(driving_);
    // What has yet to leave is for the owner's thread: it may take as long as a peer does.
    drive([&] { return over() || (queued_.load() == 0 && !driver_->busy()); });
    if (listener_ != nullptr) tell_failure();
    left = queued_.load() != 0 || !resting();
  }
  ++helps_;
  const TimePoint ended = Clock::now();
  last_wait_.store(ended);
  wanted_.store(false);
  helped_.store(false);
  if (left || ended - began > kShortHelp) end_nap();
}

// The owner's thread leaves the right to drive to helpers that come in quick succession: a wake-up
// would cost them more than what they do, since it takes the core of a rank that is at work. It is
// back when a helper leaves work, when a call comes later than helpers have come lately, or after a
// nap in which nobody helped.
void Owner::nap() {
  std::unique_lock lock(nap_mutex_);
  napping_.store(true);
  Clock::duration length = kLeastNap;
  for (uint32_t helps = helps_.load(); !stop_.load();) {
    if (nap_ends_.wait_for(lock, length, [this] { return awaited_; })) break;
    const bool helped = helps != helps_.load() || wanted_.load();
    if (!helped || (queued_.load() != 0 && !wanted_.load())) break;
    length = std::min(2 * length, kMostNap);
    helps = helps_.load();
  }
  napping_.store(false);
  awaited_ = false;
}

void Owner::end_nap() {
  {
    const std::lock_guard lock(nap_mutex_);
    awaited_ = true;
  }
  nap_ends_.notify_one();
}

bool Owner::over() const {
  return stop_.load() && queued_.load() == 0 && !driver_->busy();
}

// Begins what was submitted and goes on with what was begun; true: something moved.
bool Owner::turn() {
  try {
    bool began = false;
    for (Record* record = next(); record != nullptr; record = next()) {
      begin(*record);
      began = true;
    }
    if (resting()) return began;
    const Result<bool> moved = driver_->turn();
    if (!moved.ok()) driver_->engine().cancel();
    return began || (moved.ok() && *moved);
  } catch (const std::bad_alloc&) {
    fail_for_memory();
    return true;
  }
}

Owner::Record* Owner::next() {
  if (queued_.load() == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  Record* record = queue_[first_];
  first_ = (first_ + 1) % queue_.size();
  queued_.fetch_sub(1);
  return record;
}

void Owner::begin(Record& record) {
  Failure& failure = driver_.membership().failure();
  if (failure.failed()) return end(record, failure.status());
  try {
    if (record.tag) listener_->prepares(*record.tag, record.call);
    const std::shared_ptr<Plan> plan = driver_->plan(record.call);
    if (record.tag)
      if (const Status begun = listener_->begins(*record.tag, record.call, plan->schedule);
          !begun.ok())
        return end(record, driver_->give_up(begun.code(), begun.message()));
    const Result<Operation*> started = driver_->start(plan, record.call);
    if (!started.ok()) return end(record, started.status());
    record.operation = *started;
  } catch (const std::bad_alloc&) {
    fail_for_memory();
    end(record, failure.status());
  }
}

// As blocking calls do.
void Owner::fail_for_memory() {
  (void)driver_->give_up("out of memory");
  driver_->engine().cancel();
}

void Owner::settle() {
  for (Record* record : ended_) {
    const Execution& execution = record->operation->execution;
    const bool cancelled = execution.cancelled();
    const uint64_t sent = cancelled || !record->tag ? 0 : execution.bytes_sent();
    const Clock::duration codec_time = cancelled ? Clock::duration() : execution.codec_time();
    driver_->finish(std::exchange(record->operation, nullptr));
    end(*record, cancelled ? driver_.membership().failure().status() : Status(), sent, codec_time);
  }
  ended_.clear();
}

// The record may be another call's as soon as it is free.
void Owner::end(Record& record, const Status& status, uint64_t sent, Clock::duration codec_time) {
  const std::optional<uint64_t> tag = record.tag;
  record.end(status);
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(record.place);  // whoever submits may now use the record
  }
  room_.notify_one();
  if (tag) listener_->ended(*tag, status, sent, codec_time);
}

// What ended well after the failure was told before it.
void Owner::tell_failure() {
  if (told_failure_ || driver_->busy()) return;
  Failure& failure = driver_.membership().failure();
  if (!failure.failed()) return;
  told_failure_ = true;
  listener_->failed(failure.status());
}

}  // namespace banyan
