// Another process that opens memory of a GPU which this one lends, as ranks of a host do.
//
// It is forked before this process has opened the driver, which would be of no use to a child.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <string>

#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"

namespace banyan {

class MemoryBorrower {
 public:
  // Forks. Where that cannot be done, nothing will be said.
  MemoryBorrower();
  MemoryBorrower(const MemoryBorrower&) = delete;
  MemoryBorrower& operator=(const MemoryBorrower&) = delete;
  // The child ends, and is waited for.
  ~MemoryBorrower();

  // Why it cannot open memory of the first GPU by a handle, and if so, by a descriptor; empty: it
  // can, or there is nothing to be said, as without a GPU.
  struct Refusals {
    std::string by_handle{};
    std::string by_descriptor{};
  };
  Refusals why_not(const CudaFunctions& cuda);

 private:
  std::string why_not_by_handle(const CudaFunctions& cuda);
  std::string why_not_by_descriptor(const CudaFunctions& cuda, CudaFunctions::Device device);

  pid_t child_ = -1;
  Descriptor socket_;  // to the child
};

}  // namespace banyan
