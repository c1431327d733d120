// A GPU for the tests of ranks: the driver that STANDIN_CUDA names, or that of the machine.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "src/base/cuda_driver.h"
#include "tests/ranks/ranks.h"

namespace banyan::test {

// Holds a stream back until it is released.
class StreamHold {
 public:
  ~StreamHold() { release(); }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      released_ = true;
    }
    changed_.notify_all();
  }
  // In a thread of the driver.
  static void wait(void* held) {
    auto& self = *static_cast<StreamHold*>(held);
    std::unique_lock lock(self.mutex_);
    self.changed_.wait(lock, [&] { return self.released_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

// One rank's device, whose context is current in the rank's thread. What goes wrong is the rank's
// failure.
class RankGpu {
 public:
  // The rank has the device after so many others, from where it begins to count.
  explicit RankGpu(Rank& rank, int others = 0);
  RankGpu(const RankGpu&) = delete;
  RankGpu& operator=(const RankGpu&) = delete;
  ~RankGpu();

  bool works() const { return works_; }
  const CudaFunctions& driver() const { return cuda_; }

  std::byte* allocate(size_t bytes);
  std::byte* copy_of(const void* host, size_t bytes);
  void read(void* host, const std::byte* memory, size_t bytes);
  void free(std::byte* memory);
  void* allocate_pinned(size_t bytes);
  void free_pinned(void* memory);

  void* make_stream();
  void destroy_stream(void* stream);
  void synchronize(void* stream);
  // From and to pinned memory, in the stream's order.
  void write_on(void* stream, std::byte* memory, const void* host, size_t bytes);
  void read_on(void* stream, void* host, const std::byte* memory, size_t bytes);
  void hold(void* stream, StreamHold& held);
  // Returns when the stream has got there.
  void wait_for_host(void* stream);
  bool begin_capture(void* stream);
  bool end_capture(void* stream);
  // It is the stand-in, so that fail() can be asked.
  bool has_faults() const;
  // How often that function was called, in this process.
  long calls(const char* function) const;
  // That function's call after so many good ones returns the error; -1: each does. 0: none.
  void fail(const char* function, int after, int error);

 private:
  bool good(int result, const char* what);

  Rank& rank_;
  void* library_;
  CudaFunctions cuda_;
  bool works_ = false;
};

}  // namespace banyan::test
