// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/onebit.h"

#include <algorithm>

#include "compression/codecs.h"
#include "compression/cuda/kernel_names.h"

namespace banyan {

namespace {

constexpr std::array kOnebitTypes{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
constexpr uint8_t kOnebitSpoilt = 1;  // the flag of a message with NaN or infinity

}  // namespace

Result<CudaOnebit> CudaOnebit::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaOnebit>(cuda, image);
}

Result<CudaOnebit> CudaOnebit::find_in(std::shared_ptr<const CudaModule> module) {
  CudaOnebit onebit(std::move(module));
  BANYAN_TRY(onebit.find_all());
  return onebit;
}

Status CudaOnebit::find_all() {
  constexpr std::array<const char*, kVerbs> kNames{"encode", "spoil", "decode", "decode_add"};
  for (const DataType type : kOnebitTypes)
    for (size_t verb = 0; verb < kVerbs; ++verb) {
      const auto found = module_->find(cuda_codec_name(kNames[verb], "onebit", type));
      BANYAN_TRY(found.status());
      functions_[verb][static_cast<size_t>(type)] = *found;
    }
  const auto begin = module_->find("onebit_begin");
  BANYAN_TRY(begin.status());
  begin_ = *begin;
  return {};
}

uint64_t CudaOnebit::message_bytes(uint64_t count) {
  return codecs()[kOnebit - size_t{1}].capacity({}, DataType::kFloat32, count) + 1;
}

bool CudaOnebit::is_message(CodecMessage message, uint64_t count) {
  return message.flags <= kOnebitSpoilt && message.size + 1 == message_bytes(count);
}

Status CudaOnebit::launch(Verb verb, DataType type, CudaCodecCall call, Stream stream) const {
  if (call.count == 0) return {};
  const uint64_t blocks = (cuda_pieces(call.count) + kCudaWarps - 1) / kCudaWarps;
  return module_->launch(functions_[verb][static_cast<size_t>(type)],
                         static_cast<unsigned>(std::min(blocks, kMostCudaBlocks)), &call, stream);
}

Status CudaOnebit::encode(DataType type, const std::byte* values, uint64_t count,
                          std::byte* message, std::byte* left, Stream stream) const {
  CudaCodecCall call{
      .message = message, .values = const_cast<std::byte*>(values), .other = left, .count = count};
  BANYAN_TRY(module_->launch(begin_, 1, &call, stream));
  BANYAN_TRY(launch(kEncode, type, call, stream));
  return left == nullptr ? Status() : launch(kSpoil, type, call, stream);
}

Status CudaOnebit::decode(DataType type, CodecMessage message, uint64_t count, std::byte* values,
                          Stream stream) const {
  return launch(kDecode, type,
                {.message = const_cast<std::byte*>(message.bytes),
                 .values = values,
                 .count = count,
                 .spoilt = message.flags},
                stream);
}

Status CudaOnebit::decode_add(DataType type, CodecMessage message, uint64_t count,
                              const std::byte* addend, std::byte* sum, Stream stream) const {
  return launch(kDecodeAdd, type,
                {.message = const_cast<std::byte*>(message.bytes),
                 .values = sum,
                 .other = const_cast<std::byte*>(addend),
                 .count = count,
                 .spoilt = message.flags},
                stream);
}

}  // namespace banyan
