// What a reducer's callers wait for, and what they may ask.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/reducer/reducer.h"

namespace banyan {
namespace {

double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The caller's communicator wakes nobody here when it fails.
constexpr auto kLooksEvery = std::chrono::milliseconds(20);

// Infinity and what does not fit: never.
TimePoint later(TimePoint begin, double seconds) {
  if (!(seconds < 1e9)) return TimePoint::max();
  return begin +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

// Waits for a condition. `missing` names a tensor that it waits for and that is not ready; where
// there is none, all that it waits for is under way and has deadlines of its own. False: it has
// failed.
template <typename Reached, typename Missing>
bool GradientReducer::wait_until(std::unique_lock<std::mutex>& lock, const Reached& reached,
                                 const Missing& missing) {
  const double timeout_s = membership_->settings().timeout_s;
  const TimePoint began = Clock::now();
  TimePoint since = began;
  const auto over = [&] { return failed_ || reached(); };
  const auto over_by_itself = [&] {
    const std::lock_guard again(mutex_);
    return over() || has_failed();
  };
  if (over()) owner_->note_waiter();
  while (!over()) {
    lock.unlock();
    owner_->help(over_by_itself);
    lock.lock();
    if (over()) break;
    since = std::max(since, last_ready_);
    const TimePoint deadline = later(since, timeout_s);
    if (changed_.wait_until(lock, std::min(deadline, Clock::now() + kLooksEvery), over)) break;
    if (has_failed() || last_ready_ > since || Clock::now() < deadline) continue;
    if (const std::optional<size_t> tensor = missing())
      give_up(lock, *tensor);
    else
      since = Clock::now();
  }
  waited_seconds_ += seconds_since(began);
  return reached();
}

// Says why to all ranks, and waits until it has failed.
void GradientReducer::give_up(std::unique_lock<std::mutex>& lock, size_t missing) {
  const Settings& settings = membership_->settings();
  const auto other = std::find_if(runs_.begin(), runs_.end(),
                                  [&](const TensorRun& run) { return run.ready > steps_done_; });
  Verdict verdict{Code::kTimeout, membership_->rank(), ""};
  verdict.text =
      fmt::format("{} did not become ready on rank {} within {:.6g} s, the limit from {}",
                  named(missing), membership_->rank(), settings.timeout_s, settings.timeout_from);
  if (other == runs_.end()) {
    verdict.text = "timeout: " + verdict.text;
  } else {
    verdict.code = Code::kMismatch;
    verdict.text += fmt::format(", and {} did: all ranks make all tensors ready in every step",
                                named(static_cast<size_t>(other - runs_.begin())));
  }
  lock.unlock();
  owner_->fail(verdict);
  lock.lock();
  changed_.wait(lock, [this] { return failed_; });
}

// Gives that tensor if it is not ready. Else the first one that is not of the buckets that are
// still to be sent in this step, up to those of that tensor; of all, where it is reduced.
std::optional<size_t> GradientReducer::missing_for(size_t tensor) const {
  const TensorRun& run = runs_[tensor];
  if (run.ready <= steps_done_) return tensor;
  size_t left = run.buckets.size();
  const auto has = [&](uint32_t bucket) {
    return std::find(run.buckets.begin(), run.buckets.end(), bucket) != run.buckets.end();
  };
  for (size_t at = 0; at < next_; ++at) left -= has(order_[at]) ? 1 : 0;
  if (left == 0 && run.reduced <= steps_done_) return {};
  for (size_t at = next_; at < order_.size(); ++at) {
    for (const Piece& piece : buckets_[order_[at]].run->bucket().pieces)
      if (runs_[piece.tensor].ready <= steps_done_) return piece.tensor;
    if (has(order_[at]) && --left == 0 && run.reduced <= steps_done_) return {};
  }
  return {};
}

std::optional<size_t> GradientReducer::first_missing() const {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [this](const TensorRun& run) {
    return run.ready <= steps_done_;
  });
  if (found == runs_.end()) return {};
  return static_cast<size_t>(found - runs_.begin());
}

// When nothing is under way any more.
Status GradientReducer::settled_failure(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return failed_; });
  return failure();
}

Status GradientReducer::wait(uint64_t id) {
  std::unique_lock lock(mutex_);
  if (has_failed()) return settled_failure(lock);
  const Result<size_t> tensor = find(id);
  BANYAN_TRY(tensor.status());
  TensorRun& run = runs_[*tensor];
  const uint64_t wanted = run.ready > run.waited ? run.ready : run.waited + 1;
  const TimePoint began = Clock::now();
  const bool reached = wait_until(
      lock, [&] { return run.reduced >= wanted; }, [&] { return missing_for(*tensor); });
  logs_[*tensor].figures.wait_seconds += seconds_since(began);
  if (!reached) return failure();
  say_waited(run, wanted);
  return {};
}

Status GradientReducer::wait_all() {
  std::unique_lock lock(mutex_);
  if (has_failed()) return settled_failure(lock);
  if (unwaited_ == 0) return {};
  const uint64_t wanted = latest_step_;
  const bool reached = wait_until(
      lock, [&] { return steps_done_ >= wanted; }, [&] { return first_missing(); });
  if (!reached) return failure();
  for (TensorRun& run : runs_) say_waited(run, wanted);
  return {};
}

void GradientReducer::say_waited(TensorRun& run, uint64_t step) {
  if (run.waited >= step) return;
  run.waited = step;
  --unwaited_;
}

Result<TensorFigures> GradientReducer::figures(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const Result<size_t> tensor = find(id);
  BANYAN_TRY(tensor.status());
  return logs_[*tensor].figures;
}

TensorFigures GradientReducer::all_figures() {
  const std::lock_guard lock(mutex_);
  TensorFigures all;
  double sent = 0;
  double left = 0;
  for (const TensorLog& log : logs_) {
    all.bytes_raw += log.figures.bytes_raw;
    all.bytes_sent += log.figures.bytes_sent;
    all.nonfinite += log.figures.nonfinite;
    all.fallbacks += log.figures.fallbacks;
    all.codec_seconds += log.figures.codec_seconds;
    sent += log.squares_sent;
    left += log.squares_left;
  }
  all.steps = steps_done_;
  all.error_nmse = sent > 0 ? left / sent : 0;
  all.residual_norm = std::sqrt(left);
  all.wait_seconds = waited_seconds_;
  return all;
}

Status GradientReducer::check_idle(std::string_view call) const {
  const auto busy = std::find_if(runs_.begin(), runs_.end(),
                                 [this](const TensorRun& run) { return run.ready > steps_done_; });
  if (busy == runs_.end()) return {};
  return {Code::kInvalidUsage, fmt::format("{} is on its way: wait for all tensors before {}",
                                           named(static_cast<size_t>(busy - runs_.begin())), call)};
}

Status GradientReducer::end() {
  const std::lock_guard lock(mutex_);
  if (has_failed()) return {};
  return check_idle("the reducer is destroyed, or abort the communicator");
}

}  // namespace banyan
