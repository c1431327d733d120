// Codecs on the memory of a GPU, to the bytes of those on the host (compression/codecs.h), as
// launches on a stream. They are those of scaled blocks, whose messages have a length that their
// values do not change: int8, int4, dyn8, e4m3 and e5m2, also by chance where they have that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/codec_call.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "src/base/codec.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// float32, float16 or bfloat16.
bool has_cuda_codec(CodecId codec, DataType type);

// Those of one CUDA context, as CudaKernels (kernels.h) are, which says of threads, of memory and
// of failures what holds here, too. Pointers may have any alignment. `message` has
// Codec::capacity() bytes, and may be memory of the host that the device reaches.
class CudaCodecs {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaCodecs> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // Those of a module that is loaded.
  static Result<CudaCodecs> find_in(std::shared_ptr<const CudaModule> module);

  // What the message does not say goes to `left`, which may be null, or `values`. Requires
  // has_cuda_codec(), as all do; a selection, a flag or what is not finite is not told of.
  Status encode(CodecId codec, const Coding& coding, DataType type, const std::byte* values,
                uint64_t count, std::byte* message, std::byte* left, Stream stream) const;
  // Whoever calls has seen that the message is as long as those of so many values are.
  Status decode(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                std::byte* values, Stream stream) const;
  // Encodes, as `coding` says, the sum of what so many messages say of the same values, in their
  // order: as decode(), decode_add() and encode() do. There are 1 to kCudaFoldMost, of which
  // `message` may be one. float32 only.
  Status fold(CodecId codec, const Coding& coding, DataType type,
              std::span<const std::byte* const> messages, uint64_t count, std::byte* message,
              Stream stream) const;
  // `sum` may be `addend`.
  Status decode_add(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                    const std::byte* addend, std::byte* sum, Stream stream) const;

 private:
  static constexpr size_t kCodecCount = 16;
  using Functions = std::array<std::array<CudaModule::Function, kDataTypeCount>, kCodecCount>;

  explicit CudaCodecs(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  Status launch(const Functions& functions, CodecId codec, DataType type, CudaCodecCall call,
                Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  Functions encode_{}, decode_{}, decode_add_{};
  std::array<CudaModule::Function, kCodecCount> fold_{};
};

}  // namespace banyan
