// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/copy_line.h"

#include "src/base/bell.h"

namespace banyan {
namespace {

constexpr unsigned kWithoutLegacy = 1;  // CU_STREAM_NON_BLOCKING

// The driver calls this in a thread of its own.
void ring_bell(void* bell) {
  ring(*static_cast<const Descriptor*>(bell));
}

}  // namespace

CopyLine::~CopyLine() {
  if (!idle()) (void)finish();
  if (bell_stream_ != nullptr) {
    (void)cuda_.synchronize_stream(bell_stream_);  // it may still ring
    (void)cuda_.destroy_stream(bell_stream_);
  }
  for (Handle event : free_) (void)cuda_.destroy_event(event);
  if (stream_ != nullptr) (void)cuda_.destroy_stream(stream_);
}

Status CopyLine::open() {
  BANYAN_TRY(cuda_status(cuda_, cuda_.create_stream(&stream_, kWithoutLegacy), "cuStreamCreate"));
  return cuda_status(cuda_, cuda_.create_stream(&bell_stream_, kWithoutLegacy), "cuStreamCreate");
}

Status CopyLine::have_event() {
  if (!free_.empty()) return {};
  Handle event = nullptr;
  BANYAN_TRY(cuda_status(cuda_, cuda_.create_event(&event, kCudaWithoutTiming), "cuEventCreate"));
  free_.push_back(event);
  return {};
}

Status CopyLine::drained_unless_ok(Status enqueued) {
  if (!enqueued.ok()) (void)cuda_.synchronize_stream(stream_);
  return enqueued;
}

Status CopyLine::note(Begun begun) {
  BANYAN_TRY(drained_unless_ok(
      cuda_status(cuda_, cuda_.record_event(free_.back(), stream_), "cuEventRecord")));
  begun.event = free_.back();
  begun_.push_back(begun);
  free_.pop_back();
  return {};
}

Status CopyLine::begin_copy(void* to, const void* from, size_t bytes, uint64_t cookie) {
  return begin(cookie, 0, [&](Handle stream) {
    return cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream),
                       "cuMemcpyAsync");
  });
}

Result<bool> CopyLine::ended() const {
  const int result = cuda_.query_event(begun_.front().event);
  if (result == kCudaNotReady) return false;
  const Status status = cuda_status(cuda_, result, "a copy from or to a GPU");
  if (!status.ok()) return status;
  return true;
}

LocalWork::End CopyLine::take() {
  const Begun oldest = begun_.front();
  begun_.pop_front();
  free_.push_back(oldest.event);
  rings_for_ = nullptr;
  LocalWork::End end{oldest.cookie, LocalWork::Outcome::kDone, oldest.message_bytes};
  if (oldest.counted == nullptr) return end;
  end.message_bytes = *oldest.counted;
  room_.put_back(oldest.counted);
  return end;
}

Status CopyLine::ring_for_oldest(const Descriptor& bell) {
  if (rings_for_ == begun_.front().event) return {};
  rings_for_ = begun_.front().event;
  BANYAN_TRY(
      cuda_status(cuda_, cuda_.wait_event(bell_stream_, rings_for_, 0), "cuStreamWaitEvent"));
  return cuda_status(cuda_,
                     cuda_.call_host(bell_stream_, ring_bell, const_cast<Descriptor*>(&bell)),
                     "cuLaunchHostFunc");
}

Status CopyLine::finish() {
  Status status = cuda_status(cuda_, cuda_.synchronize_stream(stream_), "cuStreamSynchronize");
  while (!idle()) (void)take();
  return status;
}

}  // namespace banyan
