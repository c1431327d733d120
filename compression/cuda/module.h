// The module of kernels, as it is loaded into a CUDA context.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "banyan/status.h"
#include "compression/cuda/image.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// It is unloaded at its end: the context must still exist then, and be current in that thread.
class CudaModule {
 public:
  using Function = CudaFunctions::Handle;
  using Stream = CudaFunctions::Handle;  // null: the default stream

  // Loads the image into the current context; `cuda` is copied. Fails with kUnsupported where the
  // image has no code for its device, or the driver lacks a function that this needs; with kCuda
  // where the driver refuses, as it does without a context.
  static Result<CudaModule> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());

  // kCuda: there is none of that name.
  Result<Function> find(const std::string& name) const;
  Status find_all(std::span<const char* const> names, std::span<Function> found) const;
  // Enqueues so many blocks of kCudaThreads threads. `call` is copied; it is what the kernel takes.
  Status launch(Function function, unsigned blocks, void* call, Stream stream) const;

 private:
  struct Unload {
    int (*unload)(CudaFunctions::Handle);
    void operator()(void* module) const { (void)unload(module); }
  };

  explicit CudaModule(const CudaFunctions& cuda) : cuda_(cuda) {}

  CudaFunctions cuda_;
  std::unique_ptr<void, Unload> module_{nullptr, Unload{}};
};

// Finds those kernels in a module that is loaded for them alone.
template <class Kernels>
Result<Kernels> load_alone(const CudaFunctions& cuda, const CudaImage& image) {
  Result<CudaModule> module = CudaModule::load(cuda, image);
  BANYAN_TRY(module.status());
  return Kernels::find_in(std::make_shared<const CudaModule>(std::move(*module)));
}

}  // namespace banyan
