// The largest magnitudes of what is in the memory of a GPU, as the codec topk selects them
// (compression/codecs/topk.inc), exactly: a few launches on a stream, one after the other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "compression/cuda/topk_call.h"
#include "src/base/codec.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// That of one CUDA context, as CudaSparse (sparse.h) is, which says of threads, of memory, of the
// room and of failures what holds here, too.
class CudaTopk {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaTopk> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // That of a module that is loaded.
  static Result<CudaTopk> find_in(std::shared_ptr<const CudaModule> module);

  static size_t room(uint64_t count);

  // What Codec::select() says of so many float32, at least one. `selection` is memory that the
  // device reaches, at a multiple of 8.
  Status select(const Coding& coding, const std::byte* values, uint64_t count, Selection* selection,
                std::byte* room, Stream stream) const;

 private:
  enum Kernel : uint8_t {
    kBegin,
    kHistogram,
    kChoose,
    kCountTies,
    kScanPieces,
    kScanRegions,
    kEnd,
    kKernels
  };

  explicit CudaTopk(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  template <class Call>
  Status launch(Kernel kernel, uint64_t items, Call call, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  std::array<CudaModule::Function, kKernels> kernels_{};
};

}  // namespace banyan
