// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/reducer.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/parse.h"
#include "src/cuda/device_memory.h"
#include "src/liveness/verdict.h"
#include "src/reducer/send_order.h"
#include "src/reducer/warm_up.h"

namespace banyan {
namespace {

constexpr size_t kMostUnderWay = 2;          // so that one is filled while the other is on the wire
constexpr uint64_t kAgreement = UINT64_MAX;  // the tag of that call
constexpr size_t kPerBucket = 3;             // numbers of an agreement, behind the step
constexpr uint64_t kOftenUntil = 2;          // after these steps the ranks agree, and then ...
constexpr uint64_t kAgreeEvery = 16;         // ... after every so many
// A rank that misses a tensor of its own says so before those that wait for it say who is late.
constexpr double kLonger = 1.25;

double seconds_between(TimePoint begin, TimePoint end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

// Each of the two numbers its calls by itself. An abort is told to both.
void take_verdict(Membership& from, Membership& to) {
  Verdict verdict = from.failure().verdict();
  verdict.spares_calls_before = 0;
  if (verdict.code != Code::kAborted) to.adopt(verdict);
}

}  // namespace

Result<std::unique_ptr<GradientReducer>> GradientReducer::start(std::unique_ptr<Membership> own,
                                                                Membership& caller,
                                                                std::vector<Tensor> tensors,
                                                                const ReducerOptions& options) {
  std::unique_ptr<GradientReducer> reducer(
      new GradientReducer(std::move(own), caller, std::move(tensors), options));
  Result<std::unique_ptr<Owner>> owner =
      Owner::start(Driver(*reducer->membership_), 2 * kMostUnderWay, reducer.get());
  BANYAN_TRY(owner.status());
  reducer->owner_ = std::move(*owner);
  return reducer;
}

GradientReducer::GradientReducer(std::unique_ptr<Membership> own, Membership& caller,
                                 std::vector<Tensor> tensors, const ReducerOptions& options)
    : membership_(std::move(own)),
      caller_(caller),
      tensors_(std::move(tensors)),
      options_(options),
      layout_(compose(tensors_, options.bucket_bytes)),
      scales_(tensors_.size(), 1.0F),
      runs_(tensors_.size()),
      logs_(tensors_.size()),
      gradients_(tensors_.size()),
      order_(layout_.size()) {
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor)
    index_.emplace(tensors_[tensor].id, tensor);
  constexpr uint64_t kLeast = 1;  // an address also for tensors without elements
  uint64_t longest = 0;
  for (const Bucket& bucket : layout_) {
    const auto number = static_cast<uint32_t>(buckets_.size());
    BucketState& state = buckets_.emplace_back();
    state.run = std::make_unique<BucketRun>(bucket, tensors_, options_, membership_->size(),
                                            std::span(scales_), host_);
    state.missing = bucket.pieces.size();
    for (const Piece& piece : bucket.pieces) {
      runs_[piece.tensor].buckets.push_back(number);
      ++runs_[piece.tensor].unreduced;
    }
    if (bucket.staged) longest = std::max({longest, bucket.count * size_of(bucket.type), kLeast});
    compresses_ = compresses_ || state.run->compressed();
  }
  scans_ = compresses_;
  std::iota(order_.begin(), order_.end(), 0);
  for (size_t room = 0; room < kMostUnderWay && longest != 0; ++room)
    free_rooms_.push_back(rooms_.emplace_back(longest).data());
  agreement_.resize(1 + kPerBucket * buckets_.size());
}

GradientReducer::~GradientReducer() {
  // Until its thread has ended, what ends there is told here, and the next is submitted to it.
  if (owner_ != nullptr) owner_->stop();
  owner_.reset();
  Driver driver(*membership_);
  if (membership_->failure().failed())
    driver->engine().cancel();
  else
    (void)driver->depart(deadline_after(membership_->settings().timeout_s));
}

bool GradientReducer::has_failed() {
  if (!membership_->failure().failed() && caller_.failure().failed())
    take_verdict(caller_, *membership_);
  return membership_->failure().failed();
}

// Whoever is told asks the communicator for the rank, perhaps before failed() has told it.
Status GradientReducer::failure() {
  if (!caller_.failure().failed()) take_verdict(*membership_, caller_);
  return membership_->failure().status();
}

Result<size_t> GradientReducer::find(uint64_t id) const {
  const auto found = index_.find(id);
  if (found != index_.end()) return found->second;
  return Status(Code::kInvalidArgument,
                fmt::format("tensor {} is not registered; {} are, of which the first is {}", id,
                            tensors_.size(), named(0)));
}

std::string GradientReducer::named(size_t tensor) const {
  return fmt::format("tensor {} ('{}')", tensors_[tensor].id, printable(tensors_[tensor].name));
}

Status GradientReducer::ready(uint64_t id, void* gradient) {
  const std::lock_guard lock(mutex_);
  if (has_failed()) return failure();
  const Result<size_t> tensor = find(id);
  BANYAN_TRY(tensor.status());
  if (gradient == nullptr && tensors_[*tensor].count != 0)
    return {Code::kInvalidArgument, fmt::format("gradient of {} is NULL", named(*tensor))};
  look_for_cuda_driver();  // which a program may load later than it makes its reducer
  const Result<bool> on_device = must_be_staged("gradient", gradient);
  BANYAN_TRY(on_device.status());
  TensorRun& run = runs_[*tensor];
  if (run.ready > run.waited)
    return {Code::kInvalidUsage,
            fmt::format("{} is ready already: wait for it, or for all, first", named(*tensor))};
  last_ready_ = Clock::now();
  ++unwaited_;
  if (++run.ready > latest_step_) {
    latest_step_ = run.ready;
    step_began_ = last_ready_;
  }
  gradients_[*tensor] = {static_cast<std::byte*>(gradient), *on_device};
  for (const uint32_t bucket : run.buckets)
    if (--buckets_[bucket].missing == 0)
      buckets_[bucket].full_at = seconds_between(step_began_, last_ready_);
  send_what_is_full();
  return {};
}

// Under the mutex.
Call GradientReducer::call_of(BucketState& bucket) const {
  const Bucket& layout = bucket.run->bucket();
  const uint64_t step = first_step_ + steps_done_;
  Call call;
  call.problem.type = layout.type;
  call.problem.op = bucket.run->compressed() ? ReduceOp::kSum : options_.op;
  call.problem.count = layout.count;
  call.problem.in_place = true;
  call.problem.check = membership_->settings().environment.check;
  call.problem.invariant = membership_->settings().invariant;
  if (step >= bucket.exact_until)
    call.problem.compression = compression_at(layout.compression, step, options_.warmup_steps);
  call.problem.keeps_left = !call.problem.compression.is_exact();
  const Piece& first = layout.pieces.front();
  bucket.chance = {step, tensors_[first.tensor].id + first.first};
  call.chance = &bucket.chance;
  call.timeout_s = kLonger * membership_->settings().timeout_s;
  return call;
}

// Under the mutex, as what follows is.
void GradientReducer::send_what_is_full() {
  while (!agreeing_ && under_way_ < kMostUnderWay && next_ < order_.size()) {
    const uint32_t number = order_[next_];
    BucketState& bucket = buckets_[number];
    const bool full = bucket.missing == 0;
    // Before the first step, a checkpoint may still come.
    if (must_agree_ && (full || steps_done_ > 0) && agree()) return;
    if (!full) return;
    if (!owner_->submit(call_of(bucket), {}, uint64_t{number}).ok())
      return;  // it has failed, or will
    ++under_way_;
    ++next_;
  }
}

// Takes the largest of all ranks' numbers: the step that they begin with, and of each bucket when
// it is full, how long it takes, and until which step it is to be exact. False: there is nothing to
// agree on.
bool GradientReducer::agree() {
  must_agree_ = false;
  if (steps_done_ > 0 && buckets_.size() == 1 && !compresses_) return false;
  const uint64_t step = first_step_ + steps_done_;
  double* number = agreement_.data();
  *number++ = static_cast<double>(step);
  for (BucketState& bucket : buckets_) {
    const Bucket& layout = bucket.run->bucket();
    const bool coarse = is_coarse(layout.compression);
    uint64_t exact_until = bucket.exact_until;
    for (const Piece& piece : layout.pieces) {
      if (!bucket.run->compressed() || !logs_[piece.tensor].is_out_of_hand(coarse)) continue;
      exact_until = step + TensorLog::kExactSteps;
      tell_fallback(piece.tensor);
    }
    *number++ = bucket.full_at;
    *number++ = bucket.took;
    *number++ = static_cast<double>(exact_until);
  }
  Call call;
  call.problem.type = DataType::kFloat64;
  call.problem.op = ReduceOp::kMax;
  call.problem.count = agreement_.size();
  call.problem.in_place = true;
  call.problem.check = membership_->settings().environment.check;
  call.send = call.recv = agreement_.data();
  call.send_bytes = call.recv_bytes = agreement_.size() * sizeof(double);
  call.timeout_s = kLonger * membership_->settings().timeout_s;
  agreeing_ = owner_->submit(call, {}, kAgreement).ok();
  return agreeing_;
}

void GradientReducer::tell_fallback(size_t tensor) {
  if (logs_[tensor].told) return;
  logs_[tensor].told = true;
  const TensorFigures& figures = logs_[tensor].figures;
  BANYAN_LOG(membership_->settings().log, Subsystem::kCall, LogLevel::kWarn,
             "{} is exact for {} steps: what its messages leave has a norm of {:.3g}, and their "
             "error is {:.3g}; this is said once",
             named(tensor), TensorLog::kExactSteps, figures.residual_norm, figures.error_nmse);
}

void GradientReducer::take_agreement() {
  const double* number = agreement_.data();
  first_step_ = static_cast<uint64_t>(*number++) - steps_done_;
  std::vector<double> full;
  std::vector<double> took;
  for (BucketState& bucket : buckets_) {
    full.push_back(*number++);
    took.push_back(*number++);
    const auto exact_until = static_cast<uint64_t>(*number++);
    if (exact_until > bucket.exact_until && steps_done_ > 0)
      for (const Piece& piece : bucket.run->bucket().pieces)
        if (piece.first == 0) ++logs_[piece.tensor].figures.fallbacks;
    bucket.exact_until = exact_until;
  }
  if (steps_done_ > 0) order_ = send_order(full, took);
  // The bucket with the first piece of a tensor says how all of it is scaled.
  for (const TensorRun& run : runs_)
    if (options_.clip_norm > 0 && !run.buckets.empty()) put_first(order_, run.buckets);
  agreeing_ = false;
}

void GradientReducer::list_pieces(BucketState& bucket) const {
  bucket.pieces.clear();
  for (const Piece& piece : bucket.run->bucket().pieces) {
    const Gradient& gradient = gradients_[piece.tensor];
    const Tensor& tensor = tensors_[piece.tensor];
    const size_t element = size_of(tensor.type);
    // The first piece looks at the norm of all.
    const bool looks_at_all = options_.clip_norm > 0 && piece.first == 0;
    bucket.pieces.push_back({.address = gradient.address + piece.first * element,
                             .bytes = (looks_at_all ? tensor.count : piece.count) * element,
                             .own_bytes = piece.count * element,
                             .on_device = gradient.on_device});
  }
}

// Also where the vector is. What a checkpoint has left for an exact bucket is for the host to add.
bool GradientReducer::goes_by_gpu(BucketState& bucket) {
  if (bucket.run->carries()) return false;
  PackingWork* const work = twins_.work_on_gpu(bucket.pieces);
  if (work == nullptr) return false;
  const Bucket& layout = bucket.run->bucket();
  const GradientPiece& first = bucket.pieces.front();
  std::byte* const room =
      layout.staged ? twins_.take_beside(first, layout.count * size_of(layout.type)) : nullptr;
  if (layout.staged && room == nullptr) return false;
  if (!bucket.run->move_to(*work).ok()) {
    if (room != nullptr) twins_.give_back(room);
    return false;
  }
  bucket.work = work;
  bucket.room = room;
  return true;
}

void GradientReducer::prepares(uint64_t tag, Call& call) {
  if (tag == kAgreement) return;
  BucketState& bucket = buckets_[tag];
  bucket.began = Clock::now();
  list_pieces(bucket);
  const bool by_gpu = goes_by_gpu(bucket);
  call.problem.staging = {.output = by_gpu, .left = by_gpu && call.problem.keeps_left};
  if (by_gpu) {
    call.recv = bucket.run->bucket().staged ? bucket.room : bucket.pieces.front().address;
    return;
  }
  bucket.work = &host_;
  if (!bucket.run->bucket().staged) return;
  bucket.room = free_rooms_.back();
  free_rooms_.pop_back();
}

std::span<std::byte* const> GradientReducer::addresses_of(const BucketState& bucket) {
  addresses_.clear();
  for (const GradientPiece& piece : bucket.pieces) addresses_.push_back(piece.address);
  return addresses_;
}

// As the communicator's failure, which names this rank.
Status GradientReducer::lost_gpu(const Status& why) const {
  return {why.code(), fmt::format("rank {} cannot reach the memory of a GPU: {}",
                                  membership_->rank(), why.message())};
}

Status GradientReducer::begins(uint64_t tag, Call& call, const Schedule& schedule) {
  if (tag == kAgreement) return {};
  BucketState& bucket = buckets_[tag];
  Status begun;
  if (bucket.work == &host_) begun = twins_.bring(tag, bucket.pieces);
  if (begun.ok()) begun = bucket.run->fill(addresses_of(bucket), bucket.room, *bucket.work, call);
  if (begun.ok()) begun = bucket.run->expect(schedule, call);
  if (!begun.ok()) return lost_gpu(begun);
  bucket.fill_seconds = seconds_between(bucket.began, Clock::now());
  return {};
}

Result<bool> GradientReducer::take_sums(size_t index) {
  BucketState& bucket = buckets_[index];
  Result<bool> finite = bucket.run->deliver(scans_);
  if (const Status back = twins_.take_back(index); !back.ok()) finite = back;
  std::byte* const room = std::exchange(bucket.room, nullptr);
  if (room == nullptr) return finite;
  if (bucket.work == &host_)
    free_rooms_.push_back(room);
  else
    twins_.give_back(room);
  return finite;
}

void GradientReducer::ended(uint64_t tag, const Status& status, uint64_t sent,
                            Clock::duration codec) {
  if (!status.ok()) return;
  if (tag == kAgreement) {
    {
      const std::lock_guard lock(mutex_);
      take_agreement();
      send_what_is_full();
    }
    changed_.notify_all();
    return;
  }
  BucketState& bucket = buckets_[tag];
  const TimePoint reduced = Clock::now();
  const Result<bool> finite = take_sums(tag);
  if (!finite.ok()) {
    const Status lost = lost_gpu(finite.status());
    owner_->fail({lost.code(), membership_->rank(), std::string(lost.message())});
  }
  const TimePoint delivered = Clock::now();
  const double codec_seconds = std::exchange(bucket.fill_seconds, 0) +
                               seconds_between(reduced, delivered) +
                               std::chrono::duration<double>(codec).count();
  {
    const std::lock_guard lock(mutex_);
    bucket.took = seconds_between(std::max(bucket.began, last_end_), delivered);
    last_end_ = delivered;
    end_bucket(tag, finite.ok() && *finite, sent, codec_seconds);
    if (reduced_ == buckets_.size()) end_step();
    send_what_is_full();
  }
  changed_.notify_all();
}

void GradientReducer::failed(const Status& /*status*/) {
  take_verdict(*membership_, caller_);
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
  }
  changed_.notify_all();
}

// Tensors of a bucket share its bytes and its time by their lengths.
void GradientReducer::end_bucket(size_t index, bool finite, uint64_t sent, double codec_seconds) {
  BucketState& bucket = buckets_[index];
  const std::vector<Piece>& pieces = bucket.run->bucket().pieces;
  uint64_t elements = 0;
  for (const Piece& piece : pieces) elements += piece.count;
  uint64_t before = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    TensorLog& log = logs_[piece.tensor];
    const auto share = [&](uint64_t of, uint64_t upto) {
      return elements == 0
                 ? 0
                 : static_cast<uint64_t>(static_cast<double>(of) * static_cast<double>(upto) /
                                         static_cast<double>(elements));
    };
    log.figures.bytes_raw += piece.count * size_of(tensors_[piece.tensor].type);
    log.figures.bytes_sent += share(sent, before + piece.count) - share(sent, before);
    if (elements != 0)
      log.figures.codec_seconds +=
          codec_seconds * static_cast<double>(piece.count) / static_cast<double>(elements);
    before += piece.count;
    log.add(bucket.run->figures()[i], piece.count);
    TensorRun& run = runs_[piece.tensor];
    if (--run.unreduced == 0) run.reduced = steps_done_ + 1;
  }
  finite_ = finite_ && finite;
  bucket.missing = pieces.size();
  --under_way_;
  ++reduced_;
}

void GradientReducer::end_step() {
  for (BucketState& bucket : buckets_) bucket.run->keep(finite_);
  for (size_t tensor = 0; tensor < runs_.size(); ++tensor) {
    runs_[tensor].unreduced = runs_[tensor].buckets.size();
    logs_[tensor].end_step(finite_);
  }
  if (finite_) scans_ = compresses_;  // nobody carries anything any more
  finite_ = true;
  reduced_ = 0;
  next_ = 0;
  ++steps_done_;
  must_agree_ = steps_done_ <= kOftenUntil || steps_done_ % kAgreeEvery == 0;
}

}  // namespace banyan
