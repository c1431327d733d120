// SPDX-License-Identifier: Apache-2.0

#include "compression/message.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "compression/codecs.h"
#include "compression/crc32c.h"
#include "compression/grammar.h"
#include "compression/kernels.h"
#include "src/base/bytes.h"

namespace banyan {
namespace {

constexpr uint32_t kMagic = 0x4d594e42;  // "BNYM"
constexpr uint16_t kVersion = 1;
constexpr size_t kChecksum = 60;  // its place

const Codec& codec_of(CodecId codec) {
  return codecs()[codec - size_t{1}];
}

// Messages of these say values as they are.
bool keeps_values(CodecId codec) {
  return codec == kThreshold || codec == kTopk || codec == kRandk;
}

// Messages of sums and of bounds are none by themselves.
bool is_callers(uint16_t codec) {
  return codec != kNoCodec && codec < kNonzero;
}

bool is_encoded(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

uint32_t checksum(std::span<const std::byte> message) {
  constexpr std::byte kNone[sizeof(uint32_t)] = {};
  const uint32_t before = crc32c(kNone, crc32c(message.first(kChecksum)));
  return crc32c(message.subspan(kMessageHeader), before);
}

template <typename... Values>
Status corrupt(fmt::format_string<Values...> text, Values&&... values) {
  return {Code::kCorrupt, "message: " + fmt::format(text, std::forward<Values>(values)...)};
}

// What is encoded where there is a residual.
std::vector<float> sum_with(const std::byte* residual, const MessageSource& source) {
  std::vector<float> sum(source.count);
  if (source.type == DataType::kFloat64) {
    for (uint64_t i = 0; i < source.count; ++i) {
      double value = 0;
      float rest = 0;
      std::memcpy(&value, source.values + i * sizeof value, sizeof value);
      std::memcpy(&rest, residual + i * sizeof rest, sizeof rest);
      sum[i] = static_cast<float>(value + static_cast<double>(rest));
    }
    return sum;
  }
  const Kernels& kernels = best_kernels();
  constexpr auto kFloat32 = static_cast<size_t>(DataType::kFloat32);
  kernels.decode[static_cast<size_t>(source.type)](sum.data(), source.values, source.count,
                                                   nullptr);
  kernels.reduce[kFloat32][static_cast<size_t>(ReduceOp::kSum)](sum.data(), sum.data(), residual,
                                                                source.count);
  return sum;
}

struct Opened {
  const Codec* codec;
  Coding coding;
  CodecMessage blocks;
  bool keeps_values;
};

Result<Opened> open_message(std::span<const std::byte> message, uint64_t count) {
  const Result<MessageHeader> header = read_header(message);
  BANYAN_TRY(header.status());
  if (header->count != count)
    return corrupt("it has {} values, and is decoded as {}", header->count, count);
  return Opened{&codec_of(header->codec),
                {.parameter = header->parameter,
                 .carried = header->carried,
                 .seed = header->seed,
                 .step = header->step},
                {message.data() + kMessageHeader, message.size() - kMessageHeader, header->flags},
                keeps_values(header->codec)};
}

Status broken(const Opened& opened, uint64_t count) {
  return corrupt("its {} bytes of blocks are no {} of {} values", opened.blocks.size,
                 opened.codec->name, count);
}

// Codecs that keep no values know no float64: theirs are float32 first.
Status decode_widened(const Opened& opened, uint64_t count, std::byte* target, bool adds) {
  std::vector<float> values(count);
  if (!opened.codec->decode(opened.coding, DataType::kFloat32, opened.blocks, count,
                            reinterpret_cast<std::byte*>(values.data())))
    return broken(opened, count);
  for (uint64_t i = 0; i < count; ++i) {
    double value = 0;
    std::byte* at = target + i * sizeof value;
    if (adds) std::memcpy(&value, at, sizeof value);
    value = adds ? value + static_cast<double>(values[i]) : static_cast<double>(values[i]);
    std::memcpy(at, &value, sizeof value);
  }
  return {};
}

}  // namespace

void put_header(const MessageHeader& header, std::span<std::byte> message) {
  Writer writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(uint16_t{header.codec});
  writer.put(header.source);
  writer.put(header.carried);
  writer.put(uint16_t{header.flags});
  writer.put(uint32_t{0});
  writer.put(header.count);
  writer.put(header.kept);
  writer.put(header.seed);
  writer.put(header.step);
  writer.put(std::bit_cast<uint64_t>(header.parameter));
  writer.put(uint32_t{0});
  std::memcpy(message.data(), writer.bytes().data(), kChecksum);
  const uint32_t sum = checksum(message);
  std::memcpy(message.data() + kChecksum, &sum, sizeof sum);
}

Result<MessageHeader> read_header(std::span<const std::byte> message) {
  if (message.size() < kMessageHeader)
    return corrupt("it has {} bytes, and a header has {}", message.size(), kMessageHeader);
  Reader reader(message.first(kMessageHeader));
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  const auto codec = reader.get<uint16_t>();
  MessageHeader header;
  header.source = reader.get<DataType>();
  header.carried = reader.get<DataType>();
  const auto flags = reader.get<uint16_t>();
  const auto zero = reader.get<uint32_t>();
  header.count = reader.get<uint64_t>();
  header.kept = reader.get<uint64_t>();
  header.seed = reader.get<uint64_t>();
  header.step = reader.get<uint64_t>();
  header.parameter = std::bit_cast<double>(reader.get<uint64_t>());
  const auto other_zero = reader.get<uint32_t>();
  if (magic != kMagic) return corrupt("it begins with {:#010x}, expected {:#010x}", magic, kMagic);
  const auto said = reader.get<uint32_t>(), sum = checksum(message);
  if (said != sum)
    return corrupt("its checksum is {:#010x}, that of its bytes is {:#010x}", said, sum);
  if (version != kVersion) return corrupt("its version is {}, expected {}", version, kVersion);
  if (!is_callers(codec)) return corrupt("codec {} is none", codec);
  header.codec = static_cast<CodecId>(codec);
  if (!encodes(header.codec, header.source))
    return corrupt("codec {} does not encode type {}", codec, static_cast<int>(header.source));
  CodecChoice choice;
  choice.codec = header.codec;
  choice.half = header.carried != header.source;
  choice.parameter = header.parameter;
  if (header.carried != coding_of(choice, header.source).carried || !is_choice(choice))
    return corrupt("codec {} has no values of type {} and parameter {} for type {}", codec,
                   static_cast<int>(header.carried), header.parameter,
                   static_cast<int>(header.source));
  header.flags = static_cast<uint8_t>(flags);
  if (flags != header.flags || (flags != 0 && !codec_of(header.codec).has_flags))
    return corrupt("flags are {:#x}", flags);
  if (zero != 0 || other_zero != 0) return corrupt("what is to be 0 is not");
  const bool dense = header.parameter == 0;
  if (header.kept > header.count || (dense && header.kept != header.count))
    return corrupt("it keeps {} of {} values", header.kept, header.count);
  return header;
}

bool encodes(CodecId codec, DataType type) {
  return is_encoded(type) || (type == DataType::kFloat64 && keeps_values(codec));
}

uint64_t message_bound(const CodecChoice& choice, DataType type, uint64_t count) {
  return kMessageHeader + codec_of(choice.codec).capacity(coding_of(choice, type), type, count);
}

EncodedMessage encode_message(const CodecChoice& choice, const MessageSource& source,
                              std::byte* residual, std::span<std::byte> room) {
  const Codec& codec = codec_of(choice.codec);
  Coding coding = coding_of(choice, source.type);
  coding.seed = source.seed;
  coding.step = source.step;

  std::vector<float> sum;
  if (residual != nullptr) sum = sum_with(residual, source);
  auto* const left = residual != nullptr ? reinterpret_cast<std::byte*>(sum.data()) : nullptr;
  const std::byte* const values = residual != nullptr ? left : source.values;
  const DataType type = residual != nullptr ? DataType::kFloat32 : source.type;

  // What comes out may be shorter than the room where the bound is not.
  const uint64_t bound = kMessageHeader + codec.capacity(coding, type, source.count);
  std::vector<std::byte> scratch(room.size() < bound ? bound : 0);
  std::byte* const message = scratch.empty() ? room.data() : scratch.data();
  const Encoded encoded =
      codec.encode(coding, type, values, source.count, message + kMessageHeader, left);
  const EncodedMessage made{kMessageHeader + encoded.size, encoded.kept, encoded.nonfinite};
  if (made.size > room.size()) return made;

  if (!scratch.empty()) std::memcpy(room.data(), scratch.data(), made.size);
  put_header({.codec = choice.codec,
              .source = source.type,
              .carried = coding.carried,
              .flags = encoded.flags,
              .count = source.count,
              .kept = encoded.kept,
              .seed = source.seed,
              .step = source.step,
              .parameter = choice.parameter},
             room.first(made.size));
  if (left != nullptr && encoded.nonfinite == 0)
    std::memcpy(residual, left, source.count * sizeof(float));
  return made;
}

Status decode_message(std::span<const std::byte> message, DataType type, uint64_t count,
                      std::byte* target) {
  const Result<Opened> opened = open_message(message, count);
  BANYAN_TRY(opened.status());
  if (type == DataType::kFloat64 && !opened->keeps_values)
    return decode_widened(*opened, count, target, false);
  if (!opened->codec->decode(opened->coding, type, opened->blocks, count, target))
    return broken(*opened, count);
  return {};
}

Status decode_add_message(std::span<const std::byte> message, DataType type, uint64_t count,
                          std::byte* target) {
  const Result<Opened> opened = open_message(message, count);
  BANYAN_TRY(opened.status());
  if (type == DataType::kFloat64 && !opened->keeps_values)
    return decode_widened(*opened, count, target, true);
  if (!opened->codec->decode_add(opened->coding, type, opened->blocks, count, target, target))
    return broken(*opened, count);
  return {};
}

}  // namespace banyan
