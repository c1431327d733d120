// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "examples/train_mnist/checksum.h"

namespace banyan::example {
namespace {

constexpr uint64_t kMagic = 0x54534e4d594e4142;  // "BANYMNST" where the low byte comes first
constexpr uint64_t kVersion = 1;
constexpr int kMostRanks = 1 << 16;
constexpr int kMostNodes = 1 << 16;  // of a layer

// The numbers at the beginning of a file, in their order.
enum Field : size_t {
  kMagicField,
  kVersionField,
  kInputs,
  kHidden,
  kOutputs,
  kRanks,
  kRank,
  kEpochs,
  kReducerBytes,
  kChecksum,
  kFields
};
using Header = std::array<uint64_t, kFields>;

Status corrupt(const std::string& path, std::string_view why) {
  return {Code::kCorrupt, fmt::format("{}: {}", path, why)};
}

Status refused(const std::string& path, std::string_view what) {
  return {Code::kSystem,
          fmt::format("{}: {}: {}", path, what, std::system_category().message(errno))};
}

void append(std::vector<char>& bytes, const void* data, size_t count) {
  const char* begin = static_cast<const char*>(data);
  bytes.insert(bytes.end(), begin, begin + count);
}

// With a checksum of 0.
std::vector<char> bytes_of(const Checkpoint& checkpoint) {
  Header header{};
  header[kMagicField] = kMagic;
  header[kVersionField] = kVersion;
  header[kInputs] = static_cast<uint64_t>(checkpoint.shape.inputs);
  header[kHidden] = static_cast<uint64_t>(checkpoint.shape.hidden);
  header[kOutputs] = static_cast<uint64_t>(checkpoint.shape.outputs);
  header[kRanks] = static_cast<uint64_t>(checkpoint.ranks);
  header[kRank] = static_cast<uint64_t>(checkpoint.rank);
  header[kEpochs] = static_cast<uint64_t>(checkpoint.epochs);
  header[kReducerBytes] = checkpoint.reducer.size();
  std::vector<char> bytes;
  append(bytes, header.data(), sizeof header);
  append(bytes, checkpoint.parameters.data(), checkpoint.parameters.size() * sizeof(float));
  append(bytes, checkpoint.velocity.data(), checkpoint.velocity.size() * sizeof(float));
  append(bytes, checkpoint.reducer.data(), checkpoint.reducer.size());
  return bytes;
}

// Takes the numbers from a header whose checksum was right.
Result<Checkpoint> numbers_of(const std::string& path, const Header& header) {
  constexpr uint64_t kMostEpochs = std::numeric_limits<int>::max();
  const std::array<std::pair<Field, uint64_t>, 5> most = {{{kInputs, kMostNodes},
                                                           {kHidden, kMostNodes},
                                                           {kOutputs, kMostNodes},
                                                           {kRanks, kMostRanks},
                                                           {kEpochs, kMostEpochs}}};
  for (const auto& limit : most) {
    if (header[limit.first] > limit.second) return corrupt(path, "a number in it is too large");
  }
  if (header[kRank] >= header[kRanks]) return corrupt(path, "its rank is none of its job's");
  Checkpoint checkpoint;
  checkpoint.shape = {static_cast<int>(header[kInputs]), static_cast<int>(header[kHidden]),
                      static_cast<int>(header[kOutputs])};
  checkpoint.ranks = static_cast<int>(header[kRanks]);
  checkpoint.rank = static_cast<int>(header[kRank]);
  checkpoint.epochs = static_cast<int>(header[kEpochs]);
  return checkpoint;
}

std::string text_of(const Shape& shape) {
  return fmt::format("{}-{}-{}", shape.inputs, shape.hidden, shape.outputs);
}

}  // namespace

std::string checkpoint_path(const std::string& file, int rank) {
  return fmt::format("{}.{}", file, rank);
}

Status write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  std::vector<char> bytes = bytes_of(checkpoint);
  const uint64_t checksum = checksum_of(std::as_bytes(std::span(bytes)));
  std::memcpy(&bytes[kChecksum * sizeof checksum], &checksum, sizeof checksum);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return refused(path, "it cannot be written");
  return {};
}

Status replace_file(const std::string& path, const std::string& by) {
  if (std::rename(by.c_str(), path.c_str()) != 0) return refused(path, "it cannot be replaced");
  return {};
}

Result<Checkpoint> read_checkpoint(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return refused(path, "it cannot be read");
  std::vector<char> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return refused(path, "it cannot be read");

  Header header{};
  if (bytes.size() < sizeof header) return corrupt(path, "it is too short for a checkpoint");
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[kMagicField] != kMagic) return corrupt(path, "it is no checkpoint of train_mnist");
  if (header[kVersionField] != kVersion)
    return corrupt(path, fmt::format("it is of version {}, and this program reads version {}",
                                     header[kVersionField], kVersion));
  std::memset(&bytes[kChecksum * sizeof(uint64_t)], 0, sizeof(uint64_t));
  if (checksum_of(std::as_bytes(std::span(bytes))) != header[kChecksum])
    return corrupt(path, "it was cut or altered");

  Result<Checkpoint> checkpoint = numbers_of(path, header);
  if (!checkpoint.ok()) return checkpoint;
  const size_t count = checkpoint->shape.parameters();
  const size_t floats = count * sizeof(float);
  const size_t rest = bytes.size() - sizeof header;
  if (header[kReducerBytes] > rest || rest - header[kReducerBytes] != 2 * floats)
    return corrupt(path, "its lengths contradict each other");
  checkpoint->parameters.resize(count);
  checkpoint->velocity.resize(count);
  checkpoint->reducer.resize(header[kReducerBytes]);
  const char* at = bytes.data() + sizeof header;
  std::memcpy(checkpoint->parameters.data(), at, floats);
  std::memcpy(checkpoint->velocity.data(), at + floats, floats);
  std::copy(at + 2 * floats, at + rest, reinterpret_cast<char*>(checkpoint->reducer.data()));
  return checkpoint;
}

Result<Inheritance> inherit(const std::string& file, const Shape& shape, int rank, int size) {
  const std::string first_path = checkpoint_path(file, 0);
  Result<Checkpoint> first = read_checkpoint(first_path);
  if (!first.ok()) return first.status();
  if (first->shape != shape)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is of a network {}, and this one is {}", first_path,
                              text_of(first->shape), text_of(shape)));
  Inheritance inheritance;
  for (int former = rank; former < first->ranks; former += size) {
    const std::string path = checkpoint_path(file, former);
    Result<Checkpoint> other = read_checkpoint(path);
    if (!other.ok()) return other.status();
    if (other->rank != former || other->ranks != first->ranks || other->epochs != first->epochs ||
        other->shape != shape)
      return Status(
          Code::kInvalidArgument,
          fmt::format("{}: it is rank {} of {} after epoch {}, and {} asks for rank {} of {} after "
                      "epoch {}",
                      path, other->rank, other->ranks, other->epochs, first_path, former,
                      first->ranks, first->epochs));
    inheritance.reducers.push_back(std::move(other->reducer));
  }
  inheritance.checkpoint = std::move(*first);
  return inheritance;
}

}  // namespace banyan::example
