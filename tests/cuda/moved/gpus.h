// The GPUs of this process, for tests whose buffers are moved there: those of the driver that
// STANDIN_CUDA names, or of the machine. A call that the driver refuses ends the program.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

#include "src/base/cuda_driver.h"

namespace banyan::test {

class Gpus {
 public:
  // Begins with the first call, so that each process that fork() has made has its own.
  static Gpus& of_process();

  int count() const { return static_cast<int>(gpus_.size()); }
  // Any thread, whose context stays as it was.
  std::byte* allocate(int gpu, size_t bytes);
  void free(int gpu, std::byte* memory);
  void write(int gpu, std::byte* memory, const void* host, size_t bytes);
  void read(int gpu, void* host, const std::byte* memory, size_t bytes);

 private:
  using Handle = CudaFunctions::Handle;
  struct Gpu {
    Handle context = nullptr;
    Handle stream = nullptr;
  };

  Gpus();
  template <typename Body>
  void in_context(int gpu, const Body& body);

  CudaFunctions cuda_;
  std::vector<Gpu> gpus_;
};

}  // namespace banyan::test
