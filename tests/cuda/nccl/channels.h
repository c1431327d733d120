// Memory that the ranks of a communicator of the stand-in for NCCL share: one channel from each to
// each other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/cuda_driver.h"

namespace banyan {

// That of the process, which has loaded it.
CudaFunctions loaded_driver();

class Channels {
 public:
  Channels(int ranks, int rank) : ranks_(ranks), rank_(rank) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  ~Channels();

  // Waits for all others. False: it was aborted, or there is no such memory.
  bool meet(const std::string& name);
  // Each moves what it can, and returns how much.
  size_t write(int to, const std::byte* from, size_t bytes);
  size_t read(int from, std::byte* to, size_t bytes);

  void abort() { aborted_ = true; }
  bool is_aborted() const { return aborted_; }

 private:
  static constexpr size_t kRoom = size_t{256} << 10;
  // A ring: what was written and what was read since the start.
  struct Channel {
    std::atomic<uint64_t> written;
    std::atomic<uint64_t> read;
    std::byte bytes[kRoom];
  };
  struct Shared {
    std::atomic<int> arrived;
    Channel channels[1];  // ranks_ * ranks_, by who writes and who reads
  };
  size_t size() const {
    return sizeof(Shared) + static_cast<size_t>(ranks_ * ranks_) * sizeof(Channel);
  }
  Channel& channel(int from, int to) { return shared_->channels[from * ranks_ + to]; }

  const int ranks_;
  const int rank_;
  Shared* shared_ = nullptr;
  std::atomic<bool> aborted_{false};
};

}  // namespace banyan
