// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/stream_turn.h"

#include <chrono>
#include <thread>
#include <utility>

#include "src/base/bell.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr unsigned kWaitUntilNotBehind = 0;  // CU_STREAM_WAIT_VALUE_GEQ, by cyclic comparison
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
constexpr auto kLongestFarewell = std::chrono::seconds(1);

}  // namespace

StreamTurn::Shared::~Shared() {
  if (word != nullptr) (void)cuda.free_host(word);
}

Result<std::unique_ptr<StreamTurn>> StreamTurn::create(const CudaFunctions& cuda, void* stream) {
  BANYAN_TRY(check_driver(cuda));
  Result<Descriptor> bell = make_bell();
  BANYAN_TRY(bell.status());
  std::unique_ptr<StreamTurn> turn(
      new StreamTurn(std::make_unique<Shared>(cuda, std::move(*bell)), stream));
  BANYAN_TRY(turn->prepare());
  return turn;
}

Status StreamTurn::prepare() {
  const RelaxedCapture relaxed(cuda_);
  BANYAN_TRY(cuda_status(cuda_, cuda_.current_context(&context_), "cuCtxGetCurrent"));
  void* word = nullptr;
  BANYAN_TRY(cuda_status(cuda_,
                         cuda_.allocate_host(&word, sizeof(uint32_t), kCudaPortableAndMapped),
                         "cuMemHostAlloc"));
  shared_->word = static_cast<uint32_t*>(word);
  *shared_->word = 0;
  BANYAN_TRY(cuda_status(cuda_, cuda_.host_device_pointer(&word_of_gpu_, word, 0),
                         "cuMemHostGetDevicePointer"));
  return cuda_status(cuda_, cuda_.create_event(&gone_on_, kCudaWithoutTiming), "cuEventCreate");
}

StreamTurn::~StreamTurn() {
  const CurrentContext current(cuda_, context_);
  if (gone_on_ != nullptr) {
    const TimePoint until = Clock::now() + kLongestFarewell;
    int state = cuda_.query_event(gone_on_);
    for (; state == kCudaNotReady && Clock::now() < until; state = cuda_.query_event(gone_on_))
      // The driver has no wait for an event that ends by itself.
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (state == kCudaNotReady) (void)shared_.release();
    (void)cuda_.destroy_event(gone_on_);
  }
  shared_.reset();
}

// The driver calls this in a thread of its own.
void StreamTurn::reach(void* shared) {
  auto& stream = *static_cast<Shared*>(shared);
  stream.reached.fetch_add(1);
  ring(stream.bell);
}

Status StreamTurn::enter() {
  int capturing = 0;
  const int asked = cuda_.is_capturing(stream_, &capturing);
  if (asked == kCudaCaptureImplicit || (asked == kCudaSuccess && capturing != 0))
    return {
        Code::kInvalidUsage,
        "the stream is being captured into a graph, and calls cannot be: end the capture first"};
  BANYAN_TRY(cuda_status(cuda_, asked, "cuStreamIsCapturing"));
  Status status = enqueue();
  if (!status.ok()) give_up();  // it may wait already
  return status;
}

Status StreamTurn::enqueue() {
  quiet(shared_->bell);
  BANYAN_TRY(
      cuda_status(cuda_, cuda_.call_host(stream_, reach, shared_.get()), "cuLaunchHostFunc"));
  ++entered_;
  BANYAN_TRY(cuda_status(cuda_,
                         cuda_.wait_value(stream_, word_of_gpu_, entered_, kWaitUntilNotBehind),
                         "cuStreamWaitValue32"));
  return cuda_status(cuda_, cuda_.record_event(gone_on_, stream_), "cuEventRecord");
}

Status StreamTurn::copy(void* to, const void* from, size_t bytes) {
  return cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream_),
                     "cuMemcpyAsync");
}

void StreamTurn::give_up() {
  std::atomic_ref<uint32_t>(*shared_->word).store(entered_, std::memory_order_release);
}

bool StreamTurn::is_open() {
  if (shared_->reached.load() == entered_) return true;
  const TimePoint now = Clock::now();
  if (now < looks_next_) return false;
  looks_next_ = now + kBetweenLooks;
  const CurrentContext current(cuda_, context_);
  const int state = cuda_.query_event(gone_on_);
  return state != kCudaSuccess && state != kCudaNotReady;
}

}  // namespace banyan
