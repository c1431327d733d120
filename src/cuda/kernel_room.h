// What kernels of one stream need beside what they are told: memory of the GPU that one after the
// other works in, and words of the host in which they say what the host waits for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// Everything requires the stream's context to be current.
class KernelRoom {
 public:
  explicit KernelRoom(const CudaFunctions& cuda) : cuda_(cuda) {}
  KernelRoom(const KernelRoom&) = delete;
  KernelRoom& operator=(const KernelRoom&) = delete;
  // No kernel runs any more.
  ~KernelRoom();

  // Memory of the GPU, of so many bytes or more, for kernels that are enqueued next; it lasts as
  // long as the room. After the longest there is no allocation. kCuda: the driver has none left.
  Result<std::byte*> at_least(size_t bytes);

  // A word that kernels reach; whoever takes it puts it back.
  Result<uint64_t*> take_word();
  void put_back(uint64_t* word) { words_.push_back(word); }

 private:
  const CudaFunctions& cuda_;
  std::vector<CudaFunctions::Address> memory_;  // the last one is in use; each twice the one before
  size_t bytes_ = 0;                            // of that
  std::vector<void*> pages_;
  std::vector<uint64_t*> words_;  // that nobody has
};

}  // namespace banyan
