// Sparse codecs on the memory of a GPU, to the bytes of those on the host (compression/codecs.h):
// threshold, topk of a selection, nonzero, sign and randk. Each is a few launches on a stream, one
// after the other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/choice.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "compression/cuda/sparse_call.h"
#include "src/base/codec.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// Values are float32, and travel as these or as float16.
bool has_cuda_sparse(CodecId codec, const Coding& coding, DataType type);

// Those of one CUDA context, as CudaKernels (kernels.h) are, which says of threads, of memory and
// of failures what holds here, too. Values and messages may have any alignment. `message` may be
// memory of the host that the device reaches.
//
// `room` is memory of the GPU, at least room(codec, count) bytes at a multiple of 8, which is
// theirs until the launches have ended.
class CudaSparse {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaSparse> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // Those of a module that is loaded.
  static Result<CudaSparse> find_in(std::shared_ptr<const CudaModule> module);

  static size_t room(CodecId codec, uint64_t count);

  // Writes a message, of at most Codec::capacity() bytes, and its flags into the byte behind it,
  // and counts the bytes of both in `said`, which is memory that the device reaches. What the
  // message does not say goes to `left`, which may be null, or `values`. Requires
  // has_cuda_sparse(), and of topk a selection.
  Status encode(CodecId codec, const Coding& coding, const std::byte* values, uint64_t count,
                std::byte* message, std::byte* left, std::byte* room, uint64_t* said,
                Stream stream) const;
  // Whether a stranger's message says values, and so many. The host reads it.
  static bool is_message(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count);
  // Requires is_message(), as what follows does.
  Status decode(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count,
                std::byte* values, std::byte* room, Stream stream) const;
  // `sum` may be `addend`.
  Status decode_add(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count,
                    const std::byte* addend, std::byte* sum, std::byte* room, Stream stream) const;

 private:
  enum Kernel : uint8_t {
    kCountValues,
    kCountBits,
    kScanPieces,
    kScanRegions,
    kScanLists,
    kWrite,
    kRead,
    kReadAdd,
    kScatter,
    kScatterAdd,
    kCountSpoilable,
    kScanSigns,
    kWriteSigns,
    kScanSignLists,
    kScatterSigns,
    kScatterSignsAdd,
    kScanSpoilt,
    kWriteChosen,
    kKernels
  };

  CudaSparse(std::shared_ptr<const CudaModule> module, CudaChoice choice)
      : module_(std::move(module)), choice_(std::move(choice)) {}
  Status find_all();
  // As many warps as there are items.
  Status launch(Kernel kernel, uint64_t items, CudaSparseCall call, Stream stream) const;
  Status encode_signs(const CudaSparseCall& call, Stream stream) const;
  Status encode_chosen(const Coding& coding, CudaSparseCall call, Stream stream) const;
  // Has the call read the places of randk as a bitmap.
  Status choose(const Coding& coding, CudaSparseCall& call, Stream stream) const;
  // Where the values of each piece of a bitmap begin.
  Status count_bits(const CudaSparseCall& call, Stream stream) const;
  // Null addends are none.
  Status read(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count,
              const std::byte* addend, std::byte* values, std::byte* room, Stream stream) const;
  // What values are of which nothing is said, and then what lists say, if the form has these.
  Status read_lists(CodecId codec, CudaSparseCall call, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  CudaChoice choice_;
  std::array<CudaModule::Function, kKernels> kernels_{};
};

}  // namespace banyan
