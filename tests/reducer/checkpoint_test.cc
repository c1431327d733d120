// Checkpoints come back as they were written, and nothing else is taken for one.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compression/crc32c.h"

namespace banyan::checkpoint_test {
namespace {

using ::testing::HasSubstr;

using Blob = std::vector<std::byte>;

Checkpoint sample() {
  return {.ranks = 4,
          .rank = 3,
          .steps = 1'000'000'000'000,
          .tensors = {{.id = 900, .count = 3, .residual = {1, -0.0F, 3}, .momentum = {4, 5, 6}},
                      {.id = 17, .count = 5'000'000'000},
                      {.id = UINT64_MAX - 1, .count = 1, .exact_until = 77, .momentum = {7}},
                      {.id = 0}}};
}

// Values in runs of so many.
Runs runs_of(const std::vector<float>& values, size_t length) {
  Runs runs;
  for (size_t begin = 0; begin < values.size(); begin += length)
    runs.push_back(std::span(values).subspan(begin, std::min(length, values.size() - begin)));
  return runs;
}

Blob written(const Checkpoint& checkpoint, size_t run = 1000) {
  CheckpointView view{checkpoint.ranks, checkpoint.rank, checkpoint.steps};
  for (const TensorState& tensor : checkpoint.tensors)
    view.tensors.push_back({tensor.id, tensor.count, tensor.exact_until,
                            runs_of(tensor.residual, run), runs_of(tensor.momentum, run)});
  Blob blob(checkpoint_bytes(view));
  write_checkpoint(view, blob);
  return blob;
}

template <typename T>
void put(Blob& blob, size_t at, T value) {
  std::memcpy(blob.data() + at, &value, sizeof value);
}

// With the length and the checksum made right.
Blob sealed(Blob blob) {
  put(blob, 32, uint64_t{blob.size()});
  put(blob, 44, uint32_t{0});
  put(blob, 44, crc32c(blob));
  return blob;
}

std::string refusal(std::span<const std::byte> bytes) {
  const Result<Checkpoint> read = parse_checkpoint(bytes);
  if (read.ok()) return "read";
  EXPECT_EQ(read.status().code(), Code::kCorrupt);
  return std::string(read.status().message());
}

TEST(Checkpoint, ComesBack) {
  const Blob blob = written(sample());
  const Result<Checkpoint> read = parse_checkpoint(blob);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, sample());
  EXPECT_TRUE(std::signbit(read->tensors[0].residual[1]));
  EXPECT_EQ(written(*read), blob);
  EXPECT_EQ(sealed(blob), blob);
  const Result<Checkpoint> none = parse_checkpoint(written({}));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, Checkpoint());
}

TEST(Checkpoint, IsTheSameInWhateverRunsItsValuesLie) {
  EXPECT_EQ(written(sample(), 1), written(sample()));
  EXPECT_EQ(written(sample(), 2), written(sample()));
}

// So that it is read by whatever machine and version comes later.
TEST(Checkpoint, HasTheBytesThatTheHeaderSays) {
  Checkpoint checkpoint{.ranks = 2, .rank = 1, .steps = 3};
  checkpoint.tensors = {{.id = 4, .count = 1, .exact_until = 5, .residual = {1.5F}}};
  Blob expected(48 + 32 + 4);
  std::memcpy(expected.data(), "BNYC", 4);
  put(expected, 4, uint16_t{1});
  put(expected, 8, uint32_t{2});
  put(expected, 12, uint32_t{1});
  put(expected, 16, uint64_t{3});
  put(expected, 24, uint64_t{1});
  put(expected, 48, uint64_t{4});
  put(expected, 56, uint64_t{1});
  put(expected, 64, uint64_t{5});
  put(expected, 72, uint32_t{1});
  put(expected, 80, 1.5F);
  EXPECT_EQ(written(checkpoint), sealed(expected));
}

TEST(Checkpoint, IsReadAtAnyAddress) {
  const Blob blob = written(sample());
  Blob memory(blob.size() + 1);
  std::copy(blob.begin(), blob.end(), memory.begin() + 1);
  EXPECT_EQ(refusal(std::span(memory).subspan(1)), "read");
}

TEST(Checkpoint, OfAnyOtherLengthIsRefused) {
  Blob blob = written(sample());
  for (size_t bytes = 0; bytes < blob.size(); ++bytes) {
    const Blob cut(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_NE(refusal(cut), "read") << bytes;
    if (bytes < 48) continue;
    // Its checksum is right, and its values are cut.
    EXPECT_NE(refusal(sealed(cut)), "read") << bytes;
  }
  blob.push_back(std::byte{0});
  EXPECT_THAT(refusal(blob), HasSubstr("says that it has"));
  EXPECT_THAT(refusal(sealed(blob)), HasSubstr("goes on behind its 4 tensors"));
  EXPECT_EQ(refusal({}), "checkpoint: it has 0 bytes, and is cut");
}

TEST(Checkpoint, WithAnyBitTurnedIsRefused) {
  Blob blob = written(sample());
  for (size_t bit = 0; bit < 8 * blob.size(); ++bit) {
    const std::byte mask{static_cast<unsigned char>(1U << bit % 8)};
    blob[bit / 8] ^= mask;
    EXPECT_NE(refusal(blob), "read") << bit;
    blob[bit / 8] ^= mask;
  }
  EXPECT_EQ(refusal(blob), "read");
}

struct Alteration {
  size_t at;
  uint64_t value;
  std::string_view text;
};

// Whoever alters it can make the checksum right.
TEST(Checkpoint, WhoseChecksumIsRightIsNotBelievedForThat) {
  constexpr Alteration kAlterations[] = {
      {0, 0x14d594e42, "begins with 0x4d594e42"},
      {0, 0x243594e42, "is of version 2, and this library reads version 1"},
      {0, 0x1000143594e42, "rank 3 of 4, or"},
      {8, 0x300000003, "rank 3 of 3"},
      {24, 3, "goes on behind its 3 tensors"},
      {24, 5, "fewer tensors than it says"},
      {24, UINT64_MAX, "fewer tensors than it says"},
      {40, 1, "rank 3 of 4, or"},
      {56, 4, "tensor"},  // of four values, where there are three
      {56, UINT64_MAX, "values that are not there"},
      {56, uint64_t{1} << 62, "values that are not there"},  // so many bytes are none, with 64 bits
      {56, 0, "values that are not there"},
      {72, 4, "keeps 0x4"},
      {72, uint64_t{1} << 32 | 3, "keeps 0x3 and 0x1"},
      {104, 900, "tensor 900 twice"},
  };
  for (const Alteration& alteration : kAlterations) {
    Blob blob = written(sample());
    put(blob, alteration.at, alteration.value);
    EXPECT_THAT(refusal(sealed(blob)), HasSubstr(alteration.text)) << alteration.at;
  }
}

TEST(Checkpoint, OfNoiseIsRefused) {
  std::mt19937 random(1);
  for (int round = 0; round < 10'000; ++round) {
    Blob noise(random() % 300);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    EXPECT_NE(refusal(noise), "read");
  }
}

std::string difference(const Checkpoint& checkpoint, std::span<const Tensor> tensors) {
  const Status status = check_against(checkpoint, tensors);
  if (status.ok()) return "none";
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return std::string(status.message());
}

TEST(Checkpoint, IsOfItsModelWhateverTheOrder) {
  std::vector<Tensor> model{{.id = 0, .name = "empty"},
                            {.id = 17, .name = "b", .count = 5'000'000'000},
                            {.id = UINT64_MAX - 1, .name = "c", .count = 1},
                            {.id = 900, .name = "a", .count = 3}};
  EXPECT_EQ(difference(sample(), model), "none");
  std::reverse(model.begin(), model.end());
  EXPECT_EQ(difference(sample(), model), "none");
  model[0].count = 4;
  EXPECT_EQ(difference(sample(), model),
            "checkpoint of another model: tensor 900 ('a') has 4 elements, and 3 in the "
            "checkpoint");
  model[0] = {.id = 901, .name = "a", .count = 3};
  EXPECT_EQ(difference(sample(), model), "checkpoint of another model: it has no tensor 901 ('a')");
  model.erase(model.begin());
  EXPECT_EQ(difference(sample(), model),
            "checkpoint of another model: it has tensor 900 of 3 elements, and the model has none");
  EXPECT_EQ(difference({}, {}), "none");
}

}  // namespace
}  // namespace banyan::checkpoint_test
