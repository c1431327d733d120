// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/nccl/channels.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace banyan {

CudaFunctions loaded_driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? CudaFunctions() : cuda_functions(library);
}

Channels::~Channels() {
  if (shared_ != nullptr) ::munmap(shared_, size());
}

// New memory is zero. The last who comes takes its name away.
bool Channels::meet(const std::string& name) {
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool sized = ::ftruncate(file, static_cast<off_t>(size())) == 0;
  void* const memory =
      sized ? ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (memory == MAP_FAILED) return false;
  shared_ = static_cast<Shared*>(memory);
  if (++shared_->arrived == ranks_) ::shm_unlink(name.c_str());
  while (shared_->arrived < ranks_ && !aborted_)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  return !aborted_;
}

size_t Channels::write(int to, const std::byte* from, size_t bytes) {
  Channel& channel = this->channel(rank_, to);
  const uint64_t written = channel.written.load(std::memory_order_relaxed);
  const uint64_t room = kRoom - (written - channel.read.load(std::memory_order_acquire));
  const size_t count = std::min({bytes, size_t{room}, kRoom - written % kRoom});
  std::memcpy(&channel.bytes[written % kRoom], from, count);
  channel.written.store(written + count, std::memory_order_release);
  return count;
}

size_t Channels::read(int from, std::byte* to, size_t bytes) {
  Channel& channel = this->channel(from, rank_);
  const uint64_t read = channel.read.load(std::memory_order_relaxed);
  const uint64_t there = channel.written.load(std::memory_order_acquire) - read;
  const size_t count = std::min({bytes, size_t{there}, kRoom - read % kRoom});
  std::memcpy(to, &channel.bytes[read % kRoom], count);
  channel.read.store(read + count, std::memory_order_release);
  return count;
}

}  // namespace banyan
