// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/stream_turn.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/bell.h"
#include "src/base/descriptor.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr unsigned kWaitUntilNotBehind = 0;  // CU_STREAM_WAIT_VALUE_GEQ, by cyclic comparison
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

// What a stream uses at its own time.
struct StreamTurn::Place {
  const CudaFunctions& cuda;
  Descriptor bell;
  CudaFunctions::Handle context = nullptr;
  CudaFunctions::Handle gone_on = nullptr;  // event: the stream has gone through the last turn
  std::atomic<uint32_t> reached{0};         // counts the turns that the stream has got to
  uint32_t entered = 0;                     // turns
  uint32_t* word = nullptr;                 // pinned: how many have ended
  CudaFunctions::Address word_of_gpu = 0;
  bool spoiled = false;  // nothing says when the stream is through with what it has of a turn

  Place(const CudaFunctions& driver, Descriptor rung) : cuda(driver), bell(std::move(rung)) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  // Requires that no stream uses it.
  ~Place() {
    const CurrentContext current(cuda, context);
    if (gone_on != nullptr) (void)cuda.destroy_event(gone_on);
    if (word != nullptr) (void)cuda.free_host(word);
  }

  // In the context that is current.
  static Result<std::unique_ptr<Place>> make(const CudaFunctions& cuda, CudaFunctions::Handle now) {
    Result<Descriptor> bell = make_bell();
    BANYAN_TRY(bell.status());
    auto place = std::make_unique<Place>(cuda, std::move(*bell));
    place->context = now;
    void* word = nullptr;
    BANYAN_TRY(cuda_status(cuda,
                           cuda.allocate_host(&word, sizeof(uint32_t), kCudaPortableAndMapped),
                           "cuMemHostAlloc"));
    place->word = static_cast<uint32_t*>(word);
    *place->word = 0;
    BANYAN_TRY(cuda_status(cuda, cuda.host_device_pointer(&place->word_of_gpu, word, 0),
                           "cuMemHostGetDevicePointer"));
    BANYAN_TRY(
        cuda_status(cuda, cuda.create_event(&place->gone_on, kCudaWithoutTiming), "cuEventCreate"));
    return place;
  }
};

// The places that no turn has, of all contexts, to the end of the process. Thread-safe.
class StreamTurn::Places {
 public:
  static Places& of_process() {
    static auto* const places = new Places;
    return *places;
  }

  // One of this context through which no stream is on its way; null: there is none.
  std::unique_ptr<Place> take(const CudaFunctions& cuda, CudaFunctions::Handle context) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& place) {
      return !place->spoiled && &place->cuda == &cuda && place->context == context &&
             cuda.query_event(place->gone_on) == kCudaSuccess;
    });
    if (found == free_.end()) return nullptr;
    std::unique_ptr<Place> place = std::move(*found);
    free_.erase(found);
    return place;
  }
  void give_back(std::unique_ptr<Place> place) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(place));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> free_;  // the one that has been free the longest is first
};

StreamTurn::StreamTurn(std::unique_ptr<Place> place, void* stream)
    : place_(std::move(place)), cuda_(place_->cuda), stream_(stream) {}

Result<std::unique_ptr<StreamTurn>> StreamTurn::create(const CudaFunctions& cuda, void* stream) {
  BANYAN_TRY(check_driver(cuda));
  const RelaxedCapture relaxed(cuda);
  CudaFunctions::Handle context = nullptr;
  BANYAN_TRY(cuda_status(cuda, cuda.current_context(&context), "cuCtxGetCurrent"));
  std::unique_ptr<Place> place = Places::of_process().take(cuda, context);
  if (place == nullptr) {
    Result<std::unique_ptr<Place>> made = Place::make(cuda, context);
    BANYAN_TRY(made.status());
    place = std::move(*made);
  }
  return std::unique_ptr<StreamTurn>(new StreamTurn(std::move(place), stream));
}

StreamTurn::~StreamTurn() {
  Places::of_process().give_back(std::move(place_));
}

// The driver calls this in a thread of its own.
void StreamTurn::reach(void* place) {
  auto& here = *static_cast<Place*>(place);
  here.reached.fetch_add(1);
  ring(here.bell);
}

int StreamTurn::descriptor() const {
  return place_->bell.get();
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
  place_->spoiled = !status.ok();
  return status;
}

Status StreamTurn::enqueue() {
  Place& place = *place_;
  quiet(place.bell);
  BANYAN_TRY(cuda_status(cuda_, cuda_.call_host(stream_, reach, &place), "cuLaunchHostFunc"));
  ++place.entered;
  BANYAN_TRY(cuda_status(
      cuda_, cuda_.wait_value(stream_, place.word_of_gpu, place.entered, kWaitUntilNotBehind),
      "cuStreamWaitValue32"));
  return cuda_status(cuda_, cuda_.record_event(place.gone_on, stream_), "cuEventRecord");
}

Status StreamTurn::copy(void* to, const void* from, size_t bytes) {
  return cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream_),
                     "cuMemcpyAsync");
}

void StreamTurn::give_up() {
  std::atomic_ref<uint32_t>(*place_->word).store(place_->entered, std::memory_order_release);
}

bool StreamTurn::is_open() {
  const Place& place = *place_;
  if (place.reached.load() == place.entered) return true;
  const TimePoint now = Clock::now();
  if (now < looks_next_) return false;
  looks_next_ = now + kBetweenLooks;
  const CurrentContext current(cuda_, place.context);
  const int state = cuda_.query_event(place.gone_on);
  return state != kCudaSuccess && state != kCudaNotReady;
}

}  // namespace banyan
