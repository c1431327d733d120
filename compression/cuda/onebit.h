// The codec onebit on the memory of a GPU, to the bytes of that on the host: launches on a stream,
// one after the other. NaN or infinity anywhere takes the whole message, so its flag is of the GPU.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/codec_call.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "src/base/codec.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// That of one CUDA context, as CudaCodecs (codecs.h) are, which says of threads, of memory and of
// failures what holds here, too. Values are float32, float16 or bfloat16.
class CudaOnebit {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaOnebit> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // That of a module that is loaded.
  static Result<CudaOnebit> find_in(std::shared_ptr<const CudaModule> module);

  // As long as a message is, with its flag behind it.
  static uint64_t message_bytes(uint64_t count);
  // Writes so many bytes. What the message does not say goes to `left`, which may be null, or
  // `values`.
  Status encode(DataType type, const std::byte* values, uint64_t count, std::byte* message,
                std::byte* left, Stream stream) const;
  // Whether a stranger's message says so many values: it may be memory that the host cannot read.
  static bool is_message(CodecMessage message, uint64_t count);
  // Requires is_message(), as what follows does.
  Status decode(DataType type, CodecMessage message, uint64_t count, std::byte* values,
                Stream stream) const;
  // `sum` may be `addend`.
  Status decode_add(DataType type, CodecMessage message, uint64_t count, const std::byte* addend,
                    std::byte* sum, Stream stream) const;

 private:
  enum Verb : uint8_t { kEncode, kSpoil, kDecode, kDecodeAdd, kVerbs };

  explicit CudaOnebit(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  Status launch(Verb verb, DataType type, CudaCodecCall call, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  CudaModule::Function begin_{};
  std::array<std::array<CudaModule::Function, kDataTypeCount>, kVerbs> functions_{};
};

}  // namespace banyan
