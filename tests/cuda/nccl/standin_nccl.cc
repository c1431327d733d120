// A library with NCCL's ABI for GPUs that are not there: ranks of this host send each other what is
// in the stand-in driver's memory, through memory that they share. Its communicators do not block,
// its calls are enqueued a while later by a thread of its own, and its streams wait for the other
// ranks, as with the real one. Source: NCCL API reference, "Communicator Creation and Management",
// "Point To Point Communication Functions".
//
//   STANDIN_NCCL_REFUSES=R  rank R of a communicator gets no part in it
//   STANDIN_NCCL_FAILS=N    the Nth exchange of a process cannot be enqueued
// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/cuda_driver.h"
#include "src/cuda/nccl.h"
#include "tests/cuda/nccl/channels.h"

namespace banyan {
namespace {

constexpr unsigned kWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING

enum Result { kSuccess = 0, kUnhandledCuda = 1, kInvalidArgument = 4, kInvalidUsage = 5 };
constexpr int kInProgress = 7;
constexpr int kRemoteError = 6;

const CudaFunctions& driver() {
  static const CudaFunctions functions = loaded_driver();
  return functions;
}

// A number from the environment; -1 where there is none.
int told(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody writes it
  return value == nullptr ? -1 : std::atoi(value);
}

// Memory of the host to copy to and from. It is kept: to free such memory waits for all streams,
// which may wait for another rank of this process.
class StagingPool {
 public:
  ~StagingPool() {
    for (const Piece& piece : all_) (void)driver().free_host(piece.memory);
  }
  // Null: there is none.
  void* take(size_t bytes) {
    for (Piece& piece : all_)
      if (piece.free && piece.bytes >= bytes) {
        piece.free = false;
        return piece.memory;
      }
    void* memory = nullptr;
    if (driver().allocate_host(&memory, bytes, 0) != 0) return nullptr;
    all_.push_back({memory, bytes, false});
    return memory;
  }
  void put_back(const void* memory) {
    for (Piece& piece : all_) piece.free = piece.free || piece.memory == memory;
  }

 private:
  struct Piece {
    void* memory;
    size_t bytes;
    bool free;
  };
  std::vector<Piece> all_;
};

// One group of sends and receives, on its way through a stream.
struct Exchange {
  struct Part {
    std::byte* at;
    size_t bytes;
    int peer;
    void* staged = nullptr;  // its copy in memory of the host
    size_t moved = 0;
  };
  std::vector<Part> sends, receives;
  CudaFunctions::Handle stream = nullptr;
  CudaFunctions::Handle context = nullptr;
  CudaFunctions::Handle given = nullptr;  // events: what it gives is on the host, ...
  CudaFunctions::Handle done = nullptr;   // ... and all has ended; null: it is not enqueued whole
  uint32_t* came = nullptr;               // the stream waits until that is 1
  std::shared_ptr<Channels> channels;
  StagingPool* pool = nullptr;  // of its communicator

  ~Exchange() {
    if (pool == nullptr) return;
    for (std::vector<Part>* parts : {&sends, &receives})
      for (const Part& part : *parts) pool->put_back(part.staged);
    pool->put_back(came);
    for (CudaFunctions::Handle event : {given, done})
      if (event != nullptr) (void)driver().destroy_event(event);
  }
};

// Until all have what they are given, or this rank has had enough. The stream waits for it.
void meet_others(Exchange& exchange) {
  Channels& channels = *exchange.channels;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  while (driver().query_event(exchange.given) == kCudaNotReady) pause();
  for (bool open = true; open && !channels.is_aborted();) {
    open = false;
    bool moved = false;
    const auto go_on = [&](Exchange::Part& part, size_t bytes) {
      part.moved += bytes;
      moved = moved || bytes != 0;
      open = open || part.moved != part.bytes;
    };
    for (Exchange::Part& part : exchange.sends)
      go_on(part, channels.write(part.peer, static_cast<std::byte*>(part.staged) + part.moved,
                                 part.bytes - part.moved));
    for (Exchange::Part& part : exchange.receives)
      go_on(part, channels.read(part.peer, static_cast<std::byte*>(part.staged) + part.moved,
                                part.bytes - part.moved));
    if (open && !moved) pause();
  }
  std::atomic_ref(*exchange.came).store(1);
}

// Copies to the host, a wait for the exchange, and copies back, behind what the stream has.
bool enqueue(Exchange* exchange) {
  const CudaFunctions& cuda = driver();
  if (cuda.set_context(exchange->context) != 0) return false;
  for (std::vector<Exchange::Part>* parts : {&exchange->sends, &exchange->receives})
    for (Exchange::Part& part : *parts) {
      part.staged = exchange->pool->take(part.bytes);
      if (part.staged == nullptr) return false;
    }
  const auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  for (const Exchange::Part& part : exchange->sends)
    if (cuda.to_host(part.staged, address(part.at), part.bytes, exchange->stream) != 0)
      return false;
  constexpr unsigned kEqual = 1;  // CU_STREAM_WAIT_VALUE_EQ
  void* const word = exchange->pool->take(sizeof(uint32_t));
  if (word == nullptr) return false;
  exchange->came = static_cast<uint32_t*>(word);
  *exchange->came = 0;
  if (cuda.create_event(&exchange->given, kWithoutTiming) != 0 ||
      cuda.record_event(exchange->given, exchange->stream) != 0 ||
      cuda.wait_value(exchange->stream, reinterpret_cast<uintptr_t>(word), 1, kEqual) != 0)
    return false;
  for (const Exchange::Part& part : exchange->receives)
    if (cuda.to_device(address(part.at), part.staged, part.bytes, exchange->stream) != 0)
      return false;
  return cuda.create_event(&exchange->done, kWithoutTiming) == 0 &&
         cuda.record_event(exchange->done, exchange->stream) == 0;
}

class Comm {
 public:
  Comm(int ranks, int rank, const std::string& name)
      : rank_(rank), channels_(std::make_shared<Channels>(ranks, rank)) {
    thread_ = std::thread([this, name] { serve(name); });
  }
  // What runs ends soon; who waits for the stream waits for that.
  ~Comm() {
    channels_->abort();
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    bell_.notify_one();
    thread_.join();
  }
  int state() {
    const std::lock_guard lock(mutex_);
    return state_ == kSuccess && (!is_made_ || !waiting_.empty()) ? kInProgress : state_;
  }
  void add(std::unique_ptr<Exchange> exchange) {
    exchange->channels = channels_;
    exchange->pool = &pool_;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(exchange));
    }
    bell_.notify_one();
  }

 private:
  void serve(const std::string& name) {
    const bool met = told("STANDIN_NCCL_REFUSES") != rank_ && channels_->meet(name);
    std::unique_lock lock(mutex_);
    is_made_ = true;
    if (!met) state_ = kRemoteError;
    for (;;) {
      bell_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) break;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20 * (++count_ % 7)));
      while (!begun_.empty() && begun_.front()->done != nullptr &&
             driver().query_event(begun_.front()->done) == 0)
        begun_.pop_front();
      const bool fails = static_cast<int>(count_) == told("STANDIN_NCCL_FAILS");
      const bool done = !fails && enqueue(waiting_.front().get());
      lock.lock();
      if (!done) state_ = kUnhandledCuda;
      begun_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      lock.unlock();
      if (begun_.back()->came != nullptr) meet_others(*begun_.back());
      lock.lock();
    }
    lock.unlock();
    for (const auto& exchange : begun_) {
      (void)driver().set_context(exchange->context);
      (void)driver().synchronize_stream(exchange->stream);
    }
    begun_.clear();
  }

  const int rank_;
  const std::shared_ptr<Channels> channels_;
  std::mutex mutex_;
  std::condition_variable bell_;
  bool is_made_ = false;
  bool ends_ = false;
  int state_ = kSuccess;
  unsigned count_ = 0;
  StagingPool pool_;  // of the thread
  std::deque<std::unique_ptr<Exchange>> waiting_;
  std::deque<std::unique_ptr<Exchange>> begun_;
  std::thread thread_;
};

// The group that this thread has open.
struct Group {
  int depth = 0;
  Comm* comm = nullptr;
  std::unique_ptr<Exchange> exchange;
};
thread_local Group group;

int add_part(bool sends, std::byte* at, size_t count, int type, int peer, void* comm,
             void* stream) {
  if (comm == nullptr || type != 0) return kInvalidArgument;
  if (group.depth == 0) return kInvalidUsage;  // this one has nothing but groups
  if (group.exchange == nullptr) group.exchange = std::make_unique<Exchange>();
  if (group.comm != nullptr && group.comm != comm) return kInvalidUsage;
  group.comm = static_cast<Comm*>(comm);
  group.exchange->stream = stream;
  (sends ? group.exchange->sends : group.exchange->receives).push_back({at, count, peer});
  return kSuccess;
}

}  // namespace
}  // namespace banyan

// Whoever calls these finds them by their names.
#pragma GCC diagnostic ignored "-Wmissing-declarations"
// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

using banyan::Comm;

int ncclGetVersion(int* version) {
  if (version == nullptr) return banyan::kInvalidArgument;
  *version = 22809;
  return 0;
}

const char* ncclGetErrorString(int result) {
  return result == 0 ? "no error" : "the stand-in for NCCL was told to fail";
}

const char* ncclGetLastError(void* /*comm*/) {
  return "";
}

int ncclGetUniqueId(banyan::NcclId* id) {
  static std::atomic<int> next{0};
  if (id == nullptr) return banyan::kInvalidArgument;
  *id = {};
  std::snprintf(reinterpret_cast<char*>(id->bytes.data()), id->bytes.size(), "/banyan-nccl-%d-%d",
                getpid(), next++);
  return 0;
}

int ncclCommInitRankConfig(void** comm, int ranks, banyan::NcclId id, int rank,
                           banyan::NcclConfig* config) {
  const char* const name = reinterpret_cast<const char*>(id.bytes.data());
  const bool right = comm != nullptr && config != nullptr && config->magic == 0xcafebeef &&
                     config->size >= sizeof(banyan::NcclConfig) && config->blocking == 0 &&
                     ranks > 0 && rank >= 0 && rank < ranks && name[0] == '/';
  if (!right) return banyan::kInvalidArgument;
  *comm = new Comm(ranks, rank, name);
  return banyan::kInProgress;
}

int ncclCommGetAsyncError(void* comm, int* state) {
  if (comm == nullptr || state == nullptr) return banyan::kInvalidArgument;
  *state = static_cast<Comm*>(comm)->state();
  return 0;
}

int ncclCommAbort(void* comm) {
  delete static_cast<Comm*>(comm);
  return 0;
}

int ncclGroupStart() {
  ++banyan::group.depth;
  return 0;
}

int ncclGroupEnd() {
  banyan::Group& group = banyan::group;
  if (group.depth == 0) return banyan::kInvalidUsage;
  if (--group.depth != 0 || group.exchange == nullptr) return 0;
  if (banyan::driver().current_context(&group.exchange->context) != 0)
    return banyan::kUnhandledCuda;
  std::exchange(group.comm, nullptr)->add(std::move(group.exchange));
  return banyan::kInProgress;
}

int ncclSend(const void* at, size_t count, int type, int peer, void* comm, void* stream) {
  auto* const from = static_cast<std::byte*>(const_cast<void*>(at));
  return banyan::add_part(true, from, count, type, peer, comm, stream);
}

int ncclRecv(void* at, size_t count, int type, int peer, void* comm, void* stream) {
  return banyan::add_part(false, static_cast<std::byte*>(at), count, type, peer, comm, stream);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
