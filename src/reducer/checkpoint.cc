// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/checkpoint.h"

#include <fmt/core.h>

#include <cassert>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "compression/crc32c.h"
#include "src/base/bytes.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr uint32_t kMagic = 0x43594e42;  // "BNYC"
constexpr uint16_t kVersion = 1;
constexpr size_t kHeader = 48;    // bytes
constexpr size_t kRecord = 32;    // bytes of a tensor before its values
constexpr size_t kChecksum = 44;  // its place
constexpr uint32_t kResidual = 1, kMomentum = 2;

uint32_t checksum(std::span<const std::byte> bytes) {
  constexpr std::byte kNone[sizeof(uint32_t)] = {};
  const uint32_t before = crc32c(kNone, crc32c(bytes.first(kChecksum)));
  return crc32c(bytes.subspan(kHeader), before);
}

template <typename... Values>
Status corrupt(fmt::format_string<Values...> text, Values&&... values) {
  return {Code::kCorrupt, "checkpoint: " + fmt::format(text, std::forward<Values>(values)...)};
}

uint64_t length_of(const Runs& runs) {
  uint64_t length = 0;
  for (const std::span<const float> run : runs) length += run.size();
  return length;
}

class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}

  template <typename T>
  requires std::is_integral_v<T>
  void put(T value) { copy(&value, sizeof value); }
  void put(const Runs& runs) {
    for (const std::span<const float> run : runs)
      if (!run.empty()) copy(run.data(), run.size_bytes());
  }

 private:
  void copy(const void* from, size_t bytes) {
    std::memcpy(at_, from, bytes);
    at_ += bytes;
  }

  std::byte* at_;
};

Result<std::vector<float>> read_values(Reader& reader, uint64_t count, size_t most_bytes) {
  const bool fits = count != 0 && count <= most_bytes / sizeof(float);
  const std::span<const std::byte> raw = reader.get_raw(fits ? count * sizeof(float) : 0);
  if (!fits || reader.bad()) return corrupt("a tensor keeps {} values that are not there", count);
  std::vector<float> values(count);
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

Result<TensorState> read_tensor(Reader& reader, size_t most_bytes) {
  TensorState tensor;
  tensor.id = reader.get<uint64_t>();
  tensor.count = reader.get<uint64_t>();
  tensor.exact_until = reader.get<uint64_t>();
  const auto kept = reader.get<uint32_t>();
  const auto reserved = reader.get<uint32_t>();
  if (reader.bad()) return corrupt("it has fewer tensors than it says");
  if (kept > (kResidual | kMomentum) || reserved != 0)
    return corrupt("tensor {} keeps {:#x} and {:#x}, which no tensor does", tensor.id, kept,
                   reserved);
  for (const uint32_t which : {kResidual, kMomentum}) {
    if ((kept & which) == 0) continue;
    Result<std::vector<float>> values = read_values(reader, tensor.count, most_bytes);
    BANYAN_TRY(values.status());
    (which == kResidual ? tensor.residual : tensor.momentum) = std::move(*values);
  }
  return tensor;
}

}  // namespace

size_t checkpoint_bytes(const CheckpointView& view) {
  size_t bytes = kHeader;
  for (const TensorView& tensor : view.tensors)
    bytes += kRecord + sizeof(float) * (length_of(tensor.residual) + length_of(tensor.momentum));
  return bytes;
}

void write_checkpoint(const CheckpointView& view, std::span<std::byte> room) {
  assert(room.size() == checkpoint_bytes(view));
  Cursor cursor(room.data());
  cursor.put(kMagic);
  cursor.put(kVersion);
  cursor.put(uint16_t{0});
  cursor.put(view.ranks);
  cursor.put(view.rank);
  cursor.put(view.steps);
  cursor.put(uint64_t{view.tensors.size()});
  cursor.put(uint64_t{room.size()});
  cursor.put(uint64_t{0});  // and the checksum
  for (const TensorView& tensor : view.tensors) {
    const uint64_t residual = length_of(tensor.residual), momentum = length_of(tensor.momentum);
    assert(residual == 0 || residual == tensor.count);
    assert(momentum == 0 || momentum == tensor.count);
    cursor.put(tensor.id);
    cursor.put(tensor.count);
    cursor.put(tensor.exact_until);
    cursor.put((residual != 0 ? kResidual : 0U) | (momentum != 0 ? kMomentum : 0U));
    cursor.put(uint32_t{0});
    cursor.put(tensor.residual);
    cursor.put(tensor.momentum);
  }
  Cursor(room.data() + kChecksum).put(checksum(room));
}

Result<Checkpoint> parse_checkpoint(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  if (reader.bad()) return corrupt("it has {} bytes, and is cut", bytes.size());
  if (magic != kMagic) return corrupt("it begins with {:#010x}, and is none", magic);
  if (version != kVersion)
    return corrupt("it is of version {}, and this library reads version {}", version, kVersion);
  const auto reserved = reader.get<uint16_t>();
  Checkpoint checkpoint;
  checkpoint.ranks = reader.get<uint32_t>();
  checkpoint.rank = reader.get<uint32_t>();
  checkpoint.steps = reader.get<uint64_t>();
  const auto tensors = reader.get<uint64_t>();
  const auto whole = reader.get<uint64_t>();
  const auto more_reserved = reader.get<uint32_t>();
  const auto sum = reader.get<uint32_t>();
  if (reader.bad()) return corrupt("it has {} bytes, and is cut", bytes.size());
  if (whole != bytes.size())
    return corrupt("it has {} bytes, and says that it has {}", bytes.size(), whole);
  if (sum != checksum(bytes)) return corrupt("it is altered: its checksum is wrong");
  if (reserved != 0 || more_reserved != 0 || checkpoint.rank >= checkpoint.ranks)
    return corrupt("it is of rank {} of {}, or its header is of another version", checkpoint.rank,
                   checkpoint.ranks);
  std::unordered_set<uint64_t> ids;
  for (uint64_t i = 0; i < tensors; ++i) {
    Result<TensorState> tensor = read_tensor(reader, bytes.size());
    BANYAN_TRY(tensor.status());
    if (!ids.insert(tensor->id).second) return corrupt("it has tensor {} twice", tensor->id);
    checkpoint.tensors.push_back(std::move(*tensor));
  }
  if (!reader.at_end()) return corrupt("it goes on behind its {} tensors", tensors);
  return checkpoint;
}

Status check_against(const Checkpoint& checkpoint, std::span<const Tensor> tensors) {
  const auto other_model = [](const std::string& what) {
    return Status(Code::kInvalidArgument, "checkpoint of another model: " + what);
  };
  std::unordered_map<uint64_t, uint64_t> counts;  // by id
  for (const TensorState& state : checkpoint.tensors) counts[state.id] = state.count;
  for (const Tensor& tensor : tensors) {
    const auto found = counts.find(tensor.id);
    if (found == counts.end())
      return other_model(
          fmt::format("it has no tensor {} ('{}')", tensor.id, printable(tensor.name)));
    if (found->second != tensor.count)
      return other_model(fmt::format("tensor {} ('{}') has {} elements, and {} in the checkpoint",
                                     tensor.id, printable(tensor.name), tensor.count,
                                     found->second));
    counts.erase(found);
  }
  for (const TensorState& state : checkpoint.tensors)
    if (counts.contains(state.id))
      return other_model(fmt::format("it has tensor {} of {} elements, and the model has none",
                                     state.id, state.count));
  return {};
}

}  // namespace banyan
