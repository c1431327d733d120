// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/copy_work.h"

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "compression/codecs.h"
#include "compression/cuda/codecs.h"
#include "compression/cuda/kernels.h"
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

// Copies and kernels of one direction, which end in the order in which they were begun.
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

  // `enqueue` is called with the stream. `message_bytes`: of the message that it writes.
  template <typename Enqueue>
  Status begin(uint64_t cookie, uint64_t message_bytes, const Enqueue& enqueue) {
    if (free_.empty()) {
      Handle event = nullptr;
      BANYAN_TRY(
          cuda_status(cuda_, cuda_.create_event(&event, kCudaWithoutTiming), "cuEventCreate"));
      free_.push_back(event);
    }
    BANYAN_TRY(enqueue(stream_));
    Status recorded =
        cuda_status(cuda_, cuda_.record_event(free_.back(), stream_), "cuEventRecord");
    if (!recorded.ok()) {
      (void)cuda_.synchronize_stream(stream_);  // nobody would wait for that
      return recorded;
    }
    begun_.push_back({cookie, message_bytes, free_.back()});
    free_.pop_back();
    return {};
  }
  Status begin_copy(void* to, const void* from, size_t bytes, uint64_t cookie) {
    return begin(cookie, 0, [&](Handle stream) {
      return cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream),
                         "cuMemcpyAsync");
    });
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
  LocalWork::End take() {
    const Begun oldest = begun_.front();
    begun_.pop_front();
    free_.push_back(oldest.event);
    rings_for_ = nullptr;
    return {oldest.cookie, LocalWork::Outcome::kDone, oldest.message_bytes};
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
    uint64_t message_bytes;
    Handle event;
  };

  const CudaFunctions& cuda_;
  Handle stream_ = nullptr;
  Handle bell_stream_ = nullptr;  // host functions in stream_ would hold back the copies behind
  std::deque<Begun> begun_;
  std::vector<Handle> free_;    // events
  Handle rings_for_ = nullptr;  // the oldest copy's event, where the bell was asked for it
};

struct GpuKernels {
  CudaCodecs codecs;
  CudaKernels sums;

  GpuKernels(CudaCodecs of_codecs, CudaKernels of_sums)
      : codecs(std::move(of_codecs)), sums(std::move(of_sums)) {}
};

// Those for the GPU of the current context.
Result<GpuKernels> find_kernels(const CudaFunctions& cuda) {
  Result<CudaModule> loaded = CudaModule::load(cuda);
  BANYAN_TRY(loaded.status());
  const auto module = std::make_shared<const CudaModule>(std::move(*loaded));
  Result<CudaCodecs> codecs = CudaCodecs::find_in(module);
  BANYAN_TRY(codecs.status());
  Result<CudaKernels> sums = CudaKernels::find_in(module);
  BANYAN_TRY(sums.status());
  return GpuKernels(std::move(*codecs), std::move(*sums));
}

}  // namespace

class CopyWork::Gpu {
 public:
  explicit Gpu(const CudaFunctions& cuda) : cuda_(cuda), context_(cuda) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    const CurrentContext current = make_current();
    for (std::unique_ptr<CopyLine>* line : {&out_, &in_, &own_}) line->reset();
    kernels_.reset();
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

  // Null where the build or the driver has no kernels for this GPU.
  const GpuKernels* kernels() {
    if (!std::exchange(looked_for_kernels_, true)) load_kernels();
    return kernels_ ? &*kernels_ : nullptr;
  }

  // Why there are none, once; afterwards empty.
  std::string take_why_no_kernels() { return std::exchange(why_no_kernels_, {}); }

  // Copies beside those of the engine, which nobody polls.
  Status begin_own(const Copy& copy) {
    const CurrentContext current = make_current();
    if (own_ == nullptr) {
      auto line = std::make_unique<CopyLine>(cuda_);
      BANYAN_TRY(line->open());
      own_ = std::move(line);
    }
    return own_->begin_copy(copy.to, copy.from, copy.bytes, 0);
  }
  Status finish_own() {
    if (own_ == nullptr || own_->idle()) return {};
    const CurrentContext current = make_current();
    return own_->finish();
  }

 private:
  void load_kernels() {
    const CurrentContext current = make_current();
    Result<GpuKernels> loaded = find_kernels(cuda_);
    if (loaded.ok())
      kernels_.emplace(std::move(*loaded));
    else
      why_no_kernels_ = loaded.status().message();
  }

  const CudaFunctions& cuda_;
  PrimaryContext context_;  // of which the lines are
  std::unique_ptr<CopyLine> out_, in_;
  std::unique_ptr<CopyLine> own_;  // null: nobody needed it
  bool looked_for_kernels_ = false;
  std::string why_no_kernels_;
  std::optional<GpuKernels> kernels_;
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

std::string CopyWork::take_why_no_kernels() {
  std::string why;
  for (const auto& gpu : gpus_)
    if (gpu != nullptr && why.empty()) why = gpu->take_why_no_kernels();
  return why;
}

uint32_t CopyWork::codecs_at(std::span<const void* const> addresses) {
  Gpu* all_of = nullptr;
  for (const void* address : addresses) {
    const Result<Gpu*> gpu = gpu_of(address);
    if (!gpu.ok() || (all_of != nullptr && *gpu != all_of)) return 0;
    all_of = *gpu;
  }
  if (all_of == nullptr || !all_is_pinned_ || all_of->kernels() == nullptr) return 0;
  uint32_t found = 1;
  for (CodecId codec = 1; codec <= codecs().size(); ++codec)
    found |= has_cuda_codec(codec, DataType::kFloat32) ? 1U << codec : 0;
  return found;
}

// What lies in the memory of a GPU, of the operands of a step by a kernel.
const std::byte* CopyWork::place_of(const LocalStep& local) {
  const Step& step = local.step;
  const bool reads = step.src.space != Space::kScratch;
  return local.spaces.at(reads ? step.src : step.dst);
}

// All other operands lie in working memory, which is pinned: the GPU reaches it there.
LocalWork::End CopyWork::run_kernel(const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const Result<Gpu*> gpu = gpu_of(place_of(local));
  if (!gpu.ok()) return failed(cookie, gpu.status());
  const GpuKernels* kernels = (*gpu)->kernels();
  if (kernels == nullptr || !all_is_pinned_)
    return failed(cookie, {Code::kCuda,
                           "a GPU cannot encode: it has no kernels, or the driver "
                           "does not lock the memory of messages"});
  const bool encodes = step.op == Op::kEncode && step.codec != kNoCodec;
  const uint64_t count = (encodes ? step.src : step.dst).size / size_of(step.type);
  const Coding coding = coding_of(local);
  uint64_t bytes = 0;
  if (step.codec != kNoCodec) {
    bytes = codecs()[step.codec - size_t{1}].capacity(coding, step.type, count);
    if (!encodes && local.message_bytes != bytes) return {cookie, Outcome::kCorrupt, 0};
  }
  std::byte* const dst = local.spaces.at(step.dst);
  const std::byte* const src = local.spaces.at(step.src);
  const auto enqueue = [&](Handle stream) -> Status {
    const CudaCodecs& by_codec = kernels->codecs;
    if (step.codec == kNoCodec)
      return kernels->sums.encode(step.type, dst, src, count, local.arithmetic.divisor, stream);
    if (encodes)
      return by_codec.encode(step.codec, coding, step.type, src, count, dst, nullptr, stream);
    if (step.op == Op::kDecode)
      return by_codec.decode(step.codec, step.type, src, count, dst, stream);
    return by_codec.decode_add(step.codec, step.type, local.spaces.at(step.src2), count, src, dst,
                               stream);
  };
  const CurrentContext current = (*gpu)->make_current();
  CopyLine& line = encodes ? (*gpu)->out() : (*gpu)->in();
  const Status begun = line.begin(cookie, encodes ? bytes : 0, enqueue);
  return begun.ok() ? End{cookie, Outcome::kPending, 0} : failed(cookie, begun);
}

// The host's side of such a step is working memory.
LocalWork::End CopyWork::run(const LocalStep& step, uint64_t cookie) {
  if (step.step.op != Op::kCopy) return run_kernel(step, cookie);
  const Step& copy = step.step;
  const bool out = copy.dst.space == Space::kScratch;
  std::byte* to = step.spaces.at(copy.dst);
  const std::byte* from = step.spaces.at(copy.src);
  const Result<Gpu*> gpu = gpu_of(out ? from : to);
  if (!gpu.ok()) return failed(cookie, gpu.status());
  const CurrentContext current = (*gpu)->make_current();
  CopyLine& line = out ? (*gpu)->out() : (*gpu)->in();
  const Status begun = line.begin_copy(to, from, copy.dst.size, cookie);
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
          ends[count++] = failed(line->take().cookie, ended.status());
          continue;
        }
        if (!*ended) break;
        ends[count++] = line->take();
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
    if (cuda_.register_host(memory, bytes, kPortable) != kCudaSuccess) all_is_pinned_ = false;
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
