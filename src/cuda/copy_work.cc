// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/copy_work.h"

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <utility>

#include "src/base/bell.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

using Handle = CudaFunctions::Handle;

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr unsigned kPortable = 1;     // CU_MEMHOSTREGISTER_PORTABLE

// The driver calls this in a thread of its own.
void ring_bell(void* bell) {
  ring(*static_cast<const Descriptor*>(bell));
}

// Copies of one direction, which end in the order in which they were begun.
class CopyLine {
 public:
  explicit CopyLine(const CudaFunctions& cuda) : cuda_(cuda) {}
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;
  // As all that follows, with its context current.
  ~CopyLine() {
    abandon();
    if (bell_stream_ != nullptr) {
      (void)cuda_.synchronize_stream(bell_stream_);  // it may still ring
      (void)cuda_.destroy_stream(bell_stream_);
    }
    for (Handle event : free_) (void)cuda_.destroy_event(event);
    if (stream_ != nullptr) (void)cuda_.destroy_stream(stream_);
  }

  Status open() {
    BANYAN_TRY(cuda_status(cuda_, cuda_.create_stream(&stream_, kNonBlocking), "cuStreamCreate"));
    return cuda_status(cuda_, cuda_.create_stream(&bell_stream_, kNonBlocking), "cuStreamCreate");
  }

  Status begin(void* to, const void* from, size_t bytes, uint64_t cookie) {
    if (free_.empty()) {
      Handle event = nullptr;
      BANYAN_TRY(
          cuda_status(cuda_, cuda_.create_event(&event, kCudaWithoutTiming), "cuEventCreate"));
      free_.push_back(event);
    }
    BANYAN_TRY(cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream_),
                           "cuMemcpyAsync"));
    Status recorded =
        cuda_status(cuda_, cuda_.record_event(free_.back(), stream_), "cuEventRecord");
    if (!recorded.ok()) {
      (void)cuda_.synchronize_stream(stream_);  // nobody would wait for that copy
      return recorded;
    }
    begun_.push_back({cookie, free_.back()});
    free_.pop_back();
    return {};
  }

  bool idle() const { return begun_.empty(); }
  // Whether the oldest has ended; kCuda: it has failed.
  Result<bool> ended() const {
    const int result = cuda_.query_event(begun_.front().event);
    if (result == kCudaNotReady) return false;
    const Status status = cuda_status(cuda_, result, "a copy from or to a GPU");
    if (!status.ok()) return status;
    return true;
  }
  uint64_t take() {
    const Begun oldest = begun_.front();
    begun_.pop_front();
    free_.push_back(oldest.event);
    rings_for_ = nullptr;
    return oldest.cookie;
  }

  // The bell rings when the oldest has ended.
  Status ring_for_oldest(const Descriptor& bell) {
    if (rings_for_ == begun_.front().event) return {};
    rings_for_ = begun_.front().event;
    BANYAN_TRY(
        cuda_status(cuda_, cuda_.wait_event(bell_stream_, rings_for_, 0), "cuStreamWaitEvent"));
    return cuda_status(cuda_,
                       cuda_.call_host(bell_stream_, ring_bell, const_cast<Descriptor*>(&bell)),
                       "cuLaunchHostFunc");
  }

  Status finish() {
    Status status = cuda_status(cuda_, cuda_.synchronize_stream(stream_), "cuStreamSynchronize");
    while (!idle()) (void)take();
    return status;
  }
  void abandon() {
    if (!idle()) (void)finish();
  }

 private:
  struct Begun {
    uint64_t cookie;
    Handle event;
  };

  const CudaFunctions& cuda_;
  Handle stream_ = nullptr;
  Handle bell_stream_ = nullptr;  // host functions in stream_ would hold back the copies behind
  std::deque<Begun> begun_;
  std::vector<Handle> free_;    // events
  Handle rings_for_ = nullptr;  // the oldest copy's event, where the bell was asked for it
};

}  // namespace

class CopyWork::Gpu {
 public:
  explicit Gpu(const CudaFunctions& cuda) : cuda_(cuda), context_(cuda) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    const CurrentContext current = make_current();
    for (std::unique_ptr<CopyLine>* line : {&out_, &in_, &own_}) line->reset();
  }

  Status open(int ordinal) {
    BANYAN_TRY(context_.retain(ordinal));
    const CurrentContext current = make_current();
    for (std::unique_ptr<CopyLine>* line : {&out_, &in_}) {
      *line = std::make_unique<CopyLine>(cuda_);
      BANYAN_TRY((*line)->open());
    }
    return {};
  }
  CurrentContext make_current() const { return {cuda_, context_.get()}; }
  CopyLine& out() { return *out_; }  // to the host
  CopyLine& in() { return *in_; }

  // Copies beside those of the engine, which nobody polls.
  Status begin_own(const Copy& copy) {
    const CurrentContext current = make_current();
    if (own_ == nullptr) {
      auto line = std::make_unique<CopyLine>(cuda_);
      BANYAN_TRY(line->open());
      own_ = std::move(line);
    }
    return own_->begin(copy.to, copy.from, copy.bytes, 0);
  }
  Status finish_own() {
    if (own_ == nullptr || own_->idle()) return {};
    const CurrentContext current = make_current();
    return own_->finish();
  }

 private:
  const CudaFunctions& cuda_;
  PrimaryContext context_;  // of which the lines are
  std::unique_ptr<CopyLine> out_, in_;
  std::unique_ptr<CopyLine> own_;  // null: nobody needed it
};

Result<std::unique_ptr<CopyWork>> CopyWork::create(const CudaFunctions& cuda) {
  BANYAN_TRY(check_driver(cuda));
  Result<Descriptor> bell = make_bell();
  BANYAN_TRY(bell.status());
  return std::unique_ptr<CopyWork>(new CopyWork(cuda, std::move(*bell)));
}

CopyWork::CopyWork(const CudaFunctions& cuda, Descriptor bell)
    : cuda_(cuda), bell_(std::move(bell)) {}

CopyWork::~CopyWork() = default;

Result<CopyWork::Gpu*> CopyWork::gpu_of(const void* address) {
  const Result<int> ordinal = ordinal_of(cuda_, address);
  BANYAN_TRY(ordinal.status());
  const auto index = static_cast<size_t>(*ordinal);
  if (index >= gpus_.size()) gpus_.resize(index + 1);
  if (gpus_[index] != nullptr) return gpus_[index].get();
  auto gpu = std::make_unique<Gpu>(cuda_);
  BANYAN_TRY(gpu->open(*ordinal));
  gpus_[index] = std::move(gpu);
  return gpus_[index].get();
}

Status CopyWork::open(const void* address) {
  return gpu_of(address).status();
}

LocalWork::End CopyWork::failed(uint64_t cookie, const Status& why) {
  if (why_.empty()) why_ = why.message();
  return {cookie, Outcome::kFailed, 0};
}

// The host's side of such a step is working memory.
LocalWork::End CopyWork::run(const LocalStep& step, uint64_t cookie) {
  const Step& copy = step.step;
  const bool out = copy.dst.space == Space::kScratch;
  std::byte* to = step.spaces.at(copy.dst);
  const std::byte* from = step.spaces.at(copy.src);
  const Result<Gpu*> gpu = gpu_of(out ? from : to);
  if (!gpu.ok()) return failed(cookie, gpu.status());
  const CurrentContext current = (*gpu)->make_current();
  CopyLine& line = out ? (*gpu)->out() : (*gpu)->in();
  const Status begun = line.begin(to, from, copy.dst.size, cookie);
  return begun.ok() ? End{cookie, Outcome::kPending, 0} : failed(cookie, begun);
}

size_t CopyWork::poll(std::span<End> ends) {
  size_t count = 0;
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr || (gpu->out().idle() && gpu->in().idle())) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : {&gpu->out(), &gpu->in()}) {
      while (!line->idle() && count < ends.size()) {
        const Result<bool> ended = line->ended();
        if (!ended.ok()) {
          ends[count++] = failed(line->take(), ended.status());
          continue;
        }
        if (!*ended) break;
        ends[count++] = {line->take(), Outcome::kDone, 0};
      }
    }
  }
  return count;
}

bool CopyWork::arm() {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : {&gpu->out(), &gpu->in()}) {
      if (line->idle()) continue;
      const Result<bool> ended = line->ended();
      if (!ended.ok() || *ended || !line->ring_for_oldest(bell_).ok()) return false;
    }
  }
  return true;
}

void CopyWork::disarm() {
  quiet(bell_);
}

void CopyWork::abandon() {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    gpu->out().abandon();
    gpu->in().abandon();
  }
}

Status CopyWork::copy_now(std::span<const Copy> copies) {
  Status status;
  for (const Copy& copy : copies) {
    Result<Gpu*> gpu = gpu_of(copy.from);
    if (!gpu.ok()) gpu = gpu_of(copy.to);
    status = gpu.ok() ? (*gpu)->begin_own(copy) : gpu.status();
    if (!status.ok()) break;
  }
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const Status finished = gpu->finish_own();
    if (status.ok()) status = finished;
  }
  return status;
}

void CopyWork::pin(std::byte* memory, size_t bytes) {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    (void)cuda_.register_host(memory, bytes, kPortable);
    return;
  }
}

void CopyWork::unpin(std::byte* memory) {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    (void)cuda_.unregister_host(memory);
    return;
  }
}

}  // namespace banyan
