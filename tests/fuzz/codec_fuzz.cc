// Whatever bytes a message is, as it comes and with its checksum made right: it is refused and
// nothing is written, or it is decoded within its target, to the same bits each time. For libFuzzer
// (tests/fuzz/run) and for replay_files.cc.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "compression/message.h"
#include "tests/fuzz/sealed.h"

namespace banyan {
namespace {

using Memory = std::vector<std::byte>;

constexpr uint64_t kFewValues = 1000, kMostValues = 140'000;
constexpr size_t kCountAt = 16, kSeedAt = 32, kChecksumAt = 60;
constexpr std::byte kBefore{0x40};  // 0x4040... is a value of each type

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "codec_fuzz: %s\n", what);
  std::abort();
}

using Decode = Status (*)(std::span<const std::byte> message, DataType type, uint64_t count,
                          std::byte* target);

// Decodes into memory of its own, so that a sanitizer sees what is written beyond.
Memory decode_one(Decode decode, std::span<const std::byte> message, DataType type,
                  uint64_t count) {
  const Memory before(count * size_of(type), kBefore);
  Memory target = before;
  const Status status = decode(message, type, count, target.data());
  require(status.ok() || status.code() == Code::kCorrupt, "refused as what it is not");
  require(status.ok() || target == before, "refused, and written");
  if (!status.ok()) require(!status.message().empty(), "refused without a word");
  return target;
}

void read_as(std::span<const std::byte> message, DataType type, uint64_t count) {
  for (const Decode decode : {decode_message, decode_add_message})
    require(decode_one(decode, message, type, count) == decode_one(decode, message, type, count),
            "decoded to other bits the second time");
}

void read_one(std::span<const std::byte> message) {
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                 DataType::kFloat64};
  uint64_t count = 0;
  uint8_t choice = 0;
  if (message.size() >= kMessageHeader) {
    std::memcpy(&count, message.data() + kCountAt, sizeof count);
    std::memcpy(&choice, message.data() + kSeedAt, sizeof choice);
  }
  if (count > kFewValues)  // as one type, which the message chooses
    return read_as(message, kTypes[choice % std::size(kTypes)], std::min(count, kMostValues));
  for (const DataType type : kTypes) read_as(message, type, count);
}

}  // namespace
}  // namespace banyan

// NOLINTBEGIN(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span message(reinterpret_cast<const std::byte*>(data), size);
  banyan::read_one(message);
  if (size >= banyan::kMessageHeader)
    banyan::read_one(
        banyan::sealed(banyan::Memory(message.begin(), message.end()), banyan::kChecksumAt));
  return 0;
}
// NOLINTEND(readability-identifier-naming)
