// Memory of a GPU has a twin in memory of the host, where only the host can do what is to be done.
//
//   HostTwin values(address, bytes);
//   BANYAN_TRY(values.bring());
//   ... values.data() ...
//   BANYAN_TRY(values.take_back(bytes));
//
// What the host can touch is its own twin, and nothing is copied. What was enqueued for the memory
// has ended. One thread at a time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>

#include "banyan/status.h"

namespace banyan {

class HostTwin {
 public:
  // By the driver as look_for_cuda_driver() last saw it. Throws std::bad_alloc.
  HostTwin(void* address, size_t bytes);
  // Is only read.
  HostTwin(const void* address, size_t bytes) : HostTwin(const_cast<void*>(address), bytes) {}

  std::byte* data() const { return twin_ == nullptr ? address_ : twin_.get(); }
  // Copies all of it. kUnsupported: the driver lacks a function. kCuda: it refuses.
  Status bring();
  // Copies the first of its bytes to where they are from. Likewise.
  Status take_back(size_t bytes);

 private:
  std::byte* address_;
  size_t bytes_;
  std::unique_ptr<std::byte[]> twin_;  // null: the host can touch the address
};

}  // namespace banyan
