// The places that the codec randk chooses (compression/codecs/sample.inc), as bits in the memory of
// a GPU: a few launches on a stream, one after the other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "compression/cuda/choice_call.h"
#include "compression/cuda/module.h"
#include "src/base/codec.h"

namespace banyan {

// That of one CUDA context, as CudaSparse (sparse.h) is, which says of threads and of failures what
// holds here, too.
class CudaChoice {
 public:
  using Stream = CudaModule::Stream;

  // That of a module that is loaded.
  static Result<CudaChoice> find_in(std::shared_ptr<const CudaModule> module);

  // Chooses `wanted` of at least as many places. `room` is memory of the GPU, of choice_room(count)
  // bytes at a multiple of 8; it begins with the bits, of which those behind the last place are 0.
  Status choose(const Coding& coding, uint64_t count, uint64_t wanted, std::byte* room,
                Stream stream) const;

 private:
  enum Kernel : uint8_t { kCut, kFill, kKernels };

  explicit CudaChoice(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  // As many blocks as there are spans.
  Status launch(Kernel kernel, CudaChoiceCall call, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  std::array<CudaModule::Function, kKernels> kernels_{};
};

}  // namespace banyan
