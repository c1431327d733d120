// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/codecs.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "compression/codecs.h"
#include "compression/cuda/kernel_names.h"

namespace banyan {

namespace {

constexpr std::array kCodecsHere{kInt8, kInt4, kDyn8, kE4m3, kE5m2};
constexpr std::array kTypesHere{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};

constexpr uint32_t low(uint64_t value) {
  return static_cast<uint32_t>(value);
}
constexpr uint32_t high(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

unsigned blocks_for(uint64_t count) {
  const uint64_t blocks = (cuda_pieces(count) + kCudaWarps - 1) / kCudaWarps;
  return static_cast<unsigned>(std::min(blocks, kMostCudaBlocks));
}

// What encodes so many values is told this, but for where they are.
CudaCodecCall call_of(const Coding& coding, std::byte* message, uint64_t count) {
  return {.message = message,
          .count = count,
          .first = coding.first,
          .key = {low(coding.seed), high(coding.seed) ^ coding.rank},
          .step = low(coding.step) ^ high(coding.step),
          .tensor = low(coding.tensor) ^ high(coding.tensor),
          .by_chance = coding.stochastic ? 1U : 0U};
}

}  // namespace

bool has_cuda_codec(CodecId codec, DataType type) {
  return std::find(kCodecsHere.begin(), kCodecsHere.end(), codec) != kCodecsHere.end() &&
         std::find(kTypesHere.begin(), kTypesHere.end(), type) != kTypesHere.end();
}

Result<CudaCodecs> CudaCodecs::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaCodecs>(cuda, image);
}

Result<CudaCodecs> CudaCodecs::find_in(std::shared_ptr<const CudaModule> module) {
  CudaCodecs codecs(std::move(module));
  BANYAN_TRY(codecs.find_all());
  return codecs;
}

Status CudaCodecs::find_all() {
  const auto find = [this](std::string_view verb, CodecId codec, DataType type,
                           Functions& functions) -> Status {
    const std::string_view name = codecs()[codec - size_t{1}].name;
    const auto found = module_->find(cuda_codec_name(verb, name, type));
    if (found.ok()) functions[codec][static_cast<size_t>(type)] = *found;
    return found.status();
  };
  for (const CodecId codec : kCodecsHere)
    for (const DataType type : kTypesHere) {
      BANYAN_TRY(find("encode", codec, type, encode_));
      BANYAN_TRY(find("decode", codec, type, decode_));
      BANYAN_TRY(find("decode_add", codec, type, decode_add_));
    }
  for (const CodecId codec : kCodecsHere) {
    const std::string_view name = codecs()[codec - size_t{1}].name;
    const auto found = module_->find(cuda_codec_name("fold", name, DataType::kFloat32));
    BANYAN_TRY(found.status());
    fold_[codec] = *found;
  }
  return {};
}

Status CudaCodecs::launch(const Functions& functions, CodecId codec, DataType type,
                          CudaCodecCall call, Stream stream) const {
  if (call.count == 0) return {};
  return module_->launch(functions[codec][static_cast<size_t>(type)], blocks_for(call.count), &call,
                         stream);
}

Status CudaCodecs::fold(CodecId codec, const Coding& coding, DataType type,
                        std::span<const std::byte* const> messages, uint64_t count,
                        std::byte* message, Stream stream) const {
  if (messages.empty() || messages.size() > kCudaFoldMost || type != DataType::kFloat32)
    return {Code::kInvalidArgument, fmt::format("{} messages of {}: there are 1 to {}, of float32",
                                                messages.size(), name_of(type), kCudaFoldMost)};
  if (count == 0) return {};
  CudaCodedFold call{.encode = call_of(coding, message, count),
                     .ranks = static_cast<uint32_t>(messages.size())};
  std::copy(messages.begin(), messages.end(), call.sources);
  return module_->launch(fold_[codec], blocks_for(count), &call, stream);
}

Status CudaCodecs::encode(CodecId codec, const Coding& coding, DataType type,
                          const std::byte* values, uint64_t count, std::byte* message,
                          std::byte* left, Stream stream) const {
  CudaCodecCall call = call_of(coding, message, count);
  call.values = const_cast<std::byte*>(values);
  call.other = left;
  return launch(encode_, codec, type, call, stream);
}

Status CudaCodecs::decode(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                          std::byte* values, Stream stream) const {
  return launch(decode_, codec, type,
                {.message = const_cast<std::byte*>(message), .values = values, .count = count},
                stream);
}

Status CudaCodecs::decode_add(CodecId codec, DataType type, const std::byte* message,
                              uint64_t count, const std::byte* addend, std::byte* sum,
                              Stream stream) const {
  return launch(decode_add_, codec, type,
                {.message = const_cast<std::byte*>(message),
                 .values = sum,
                 .other = const_cast<std::byte*>(addend),
                 .count = count},
                stream);
}

}  // namespace banyan
