// Tensors share vectors: every element lies in one place, and no bucket is larger than it may be.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "algorithms/choice/compression.h"

namespace banyan::buckets_test {
namespace {

using ::testing::ElementsAre;

Compression by(std::string_view text) {
  const Result<Compression> read = parse_compression(text);
  EXPECT_TRUE(read.ok()) << text;
  return *read;
}

Tensor tensor(uint64_t count, std::string_view codec = "off", DataType type = DataType::kFloat32) {
  return {.id = 7, .name = "t", .count = count, .type = type, .compression = by(codec)};
}

uint64_t bytes_of(const Bucket& bucket) {
  return bucket.count * size_of(bucket.type);
}

std::vector<uint32_t> tensors_of(const Bucket& bucket) {
  std::vector<uint32_t> tensors;
  for (const Piece& piece : bucket.pieces) tensors.push_back(piece.tensor);
  return tensors;
}

// All tensors of it, piece by piece: each element once, in the order of the tensor.
void expect_whole(std::span<const Tensor> tensors, std::span<const Bucket> buckets) {
  std::vector<std::vector<Piece>> pieces(tensors.size());
  for (const Bucket& bucket : buckets)
    for (const Piece& piece : bucket.pieces) pieces.at(piece.tensor).push_back(piece);
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::sort(pieces[t].begin(), pieces[t].end(),
              [](const Piece& a, const Piece& b) { return a.first < b.first; });
    ASSERT_FALSE(pieces[t].empty()) << t;
    uint64_t reached = 0;
    for (const Piece& piece : pieces[t]) {
      EXPECT_EQ(piece.first, reached) << t;
      EXPECT_TRUE(piece.count > 0 || tensors[t].count == 0) << t;
      reached += piece.count;
    }
    EXPECT_EQ(reached, tensors[t].count) << t;
  }
}

bool is_whole(const Compression& compression) {
  for (const std::string_view name : {"topk", "randk", "absolute", "relative"})
    if (text_of(compression).find(name) != std::string::npos) return true;
  return false;
}

void expect_kept(std::span<const Tensor> tensors, const Bucket& bucket, uint64_t bucket_bytes) {
  const bool exact = bucket.compression.is_exact();
  ASSERT_FALSE(bucket.pieces.empty());
  uint64_t end = 0;
  for (const Piece& piece : bucket.pieces) {
    const Tensor& its = tensors[piece.tensor];
    EXPECT_EQ(bucket.type, exact ? its.type : DataType::kFloat32);
    EXPECT_EQ(bucket.compression, exact ? Compression() : its.compression);
    EXPECT_GE(piece.place, end);
    EXPECT_LT(piece.place - end, 256U);
    EXPECT_TRUE(exact ? piece.place == end : piece.place % 256 == 0) << piece.place;
    EXPECT_TRUE(piece.first + piece.count == its.count || piece.count % 4096 == 0) << piece.count;
    EXPECT_TRUE(piece.count == its.count || its.count * size_of(bucket.type) > bucket_bytes);
    end = piece.place + piece.count;
  }
  EXPECT_EQ(bucket.count, end);

  const Piece& front = bucket.pieces.front();
  const Tensor& first = tensors[front.tensor];
  const bool alone = bucket.pieces.size() == 1;
  EXPECT_EQ(bucket.staged, !alone || first.type != bucket.type);
  if (is_whole(bucket.compression)) {
    EXPECT_TRUE(alone && front.count == first.count);
  } else if (bytes_of(bucket) > bucket_bytes) {
    EXPECT_TRUE(alone);
    EXPECT_LE(front.count, 4096U);
  }
}

std::vector<Tensor> random_tensors(std::mt19937& random) {
  constexpr std::string_view kCodecs[] = {"off",    "off",        "int8",         "int4",
                                          "onebit", "topk:0.01",  "randk:0.1",    "threshold:1",
                                          "auto",   "inter=int8", "inter=topk:1", "intra=randk:1"};
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat32, DataType::kFloat16,
                                 DataType::kBfloat16, DataType::kFloat64};
  constexpr uint64_t kCounts[] = {0, 1, 255, 256, 257, 4095, 4096, 4097, 20'000, 100'000};
  std::vector<Tensor> tensors(1 + random() % 40);
  for (Tensor& one : tensors) {
    one = tensor(kCounts[random() % std::size(kCounts)], kCodecs[random() % std::size(kCodecs)],
                 kTypes[random() % std::size(kTypes)]);
    if (one.type == DataType::kFloat64) one.compression = {};
    if (random() % 20 == 0 && !one.compression.is_exact())
      one.compression = within_bound(by("auto"), random() % 2 == 0, 0.1);
  }
  return tensors;
}

TEST(Buckets, EveryElementLiesInOnePlaceAndLimitsAreKept) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Tensor> tensors = random_tensors(random);
    const uint64_t bucket_bytes = (random() % 3 == 0) ? random() % 5000 : random() % 200'000;
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << bucket_bytes << " bytes");
    const std::vector<Bucket> buckets = compose(tensors, bucket_bytes);
    expect_whole(tensors, buckets);
    for (const Bucket& bucket : buckets) expect_kept(tensors, bucket, bucket_bytes);
    // The backward pass fills them in the order of their numbers.
    for (size_t b = 1; b < buckets.size(); ++b)
      EXPECT_GE(buckets[b - 1].pieces.back().tensor, buckets[b].pieces.back().tensor);
    if (HasFailure()) return;
  }
}

// Neither names nor ids decide, so that tensors that are alike may change places.
TEST(Buckets, GoByNothingButTypesCountsAndCompressions) {
  std::mt19937 random(2);
  std::vector<Tensor> tensors = random_tensors(random);
  const std::vector<Bucket> before = compose(tensors, 100'000);
  for (Tensor& one : tensors) {
    one.id = random();
    one.name = std::to_string(random());
    one.dimensions = 1 + static_cast<int>(random() % 4);
  }
  EXPECT_EQ(compose(tensors, 100'000), before);
  const std::vector<Tensor> alike(300, tensor(5000, "int8"));
  std::vector<Tensor> turned = alike;
  for (size_t i = 0; i < turned.size(); ++i) turned[i].id = i;
  std::shuffle(turned.begin(), turned.end(), random);
  EXPECT_EQ(compose(turned, 100'000), compose(alike, 100'000));
}

TEST(Buckets, AThousandTensorsOfOneElementAreOne) {
  const std::vector<Tensor> tensors(1000, tensor(1));
  const std::vector<Bucket> buckets = compose(tensors, 4000);
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_EQ(buckets[0].count, 1000U);
  EXPECT_TRUE(buckets[0].staged);
  EXPECT_EQ(buckets[0].pieces.front(), (Piece{999, 0, 1, 0}));
  EXPECT_EQ(compose(tensors, 3999).size(), 2U);
}

TEST(Buckets, AreClosedWhereTheNextTensorWouldBeTooMuch) {
  const std::vector<Tensor> tensors{tensor(60), tensor(50), tensor(40), tensor(10)};
  const std::vector<Bucket> buckets = compose(tensors, 400);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_THAT(tensors_of(buckets[0]), ElementsAre(3U, 2U, 1U));
  EXPECT_THAT(tensors_of(buckets[1]), ElementsAre(0U));
  EXPECT_TRUE(buckets[0].staged);
  EXPECT_FALSE(buckets[1].staged);
}

// What is closed stays so, though a later tensor would fit.
TEST(Buckets, TakeNothingMoreOnceTheyAreClosed) {
  const std::vector<Bucket> buckets = compose(std::vector{tensor(40), tensor(50), tensor(60)}, 400);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_THAT(tensors_of(buckets[0]), ElementsAre(2U));
  EXPECT_THAT(tensors_of(buckets[1]), ElementsAre(1U, 0U));
}

// The bucket of biases was begun first and is full last.
TEST(Buckets, AreNumberedByTheirLastTensors) {
  const std::vector<Tensor> tensors{tensor(30), tensor(5000, "int8"), tensor(30),
                                    tensor(5000, "int8")};
  const std::vector<Bucket> buckets = compose(tensors, 20'000);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_THAT(tensors_of(buckets[0]), ElementsAre(3U));
  EXPECT_THAT(tensors_of(buckets[1]), ElementsAre(1U));
  EXPECT_THAT(tensors_of(buckets[2]), ElementsAre(2U, 0U));
}

TEST(Buckets, OfCompressedTensorsBeginTheirPiecesAtBlocks) {
  const std::vector<Tensor> tensors{tensor(300, "int8"), tensor(5000, "int8")};
  const std::vector<Bucket> buckets = compose(tensors, 1 << 20);
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_THAT(buckets[0].pieces, ElementsAre(Piece{1, 0, 5000, 0}, Piece{0, 0, 300, 5120}));
  EXPECT_EQ(buckets[0].count, 5420U);
}

TEST(Buckets, OfLongTensorsArePiecesOfThemWhereTheyCanBe) {
  for (const std::string_view codec : {"off", "int8"}) {
    const std::vector<Bucket> buckets = compose(std::vector{tensor(1'000'000, codec)}, 100'000);
    ASSERT_EQ(buckets.size(), 41U) << codec;  // of 24,576 elements at most
    for (const Bucket& bucket : buckets) EXPECT_FALSE(bucket.staged) << codec;
  }
  const std::vector<Bucket> whole = compose(std::vector{tensor(1'000'000, "topk:0.1")}, 100'000);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_FALSE(whole[0].staged);
  const DataType half = DataType::kFloat16;
  const std::vector<Bucket> exact = compose(std::vector{tensor(90'000, "off", half)}, 100'000);
  ASSERT_EQ(exact.size(), 2U);  // of 22 units of 4,096 elements: 11 each
  EXPECT_THAT(exact[0].pieces, ElementsAre(Piece{0, 0, 11 * 4096, 0}));
  EXPECT_THAT(exact[1].pieces, ElementsAre(Piece{0, 11 * 4096, 90'000 - 11 * 4096, 0}));
  EXPECT_FALSE(exact[0].staged);
  EXPECT_EQ(exact[0].type, half);
}

TEST(Buckets, OfLongTensorsInAnotherTypeAreStaged) {
  const DataType half = DataType::kBfloat16;
  const std::vector<Tensor> tensors{tensor(100, "int8"), tensor(10'000, "int8", half)};
  const std::vector<Bucket> buckets = compose(tensors, 20'000);  // 5,000 elements, cut at 4,096
  ASSERT_EQ(buckets.size(), 4U);
  EXPECT_THAT(buckets[0].pieces, ElementsAre(Piece{1, 0, 4096, 0}));
  EXPECT_THAT(buckets[1].pieces, ElementsAre(Piece{1, 4096, 4096, 0}));
  EXPECT_THAT(buckets[2].pieces, ElementsAre(Piece{1, 8192, 1808, 0}));
  EXPECT_THAT(buckets[3].pieces, ElementsAre(Piece{0, 0, 100, 0}));
  for (const Bucket& bucket : buckets) EXPECT_EQ(bucket.staged, &bucket != &buckets.back());
  // This codec looks at all elements.
  const std::vector<Bucket> whole = compose(std::vector{tensor(10'000, "topk:0.1", half)}, 20'000);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_TRUE(whole[0].staged);
  EXPECT_EQ(whole[0].type, DataType::kFloat32);
}

TEST(Buckets, OfCodecsThatLookAtAllElementsHaveOneTensorWhateverTheLevel) {
  const CodecChoice topk = by("topk:0.1").inter;
  for (const Compression& compression :
       {Compression{.intra = topk}, Compression{.inter = topk}, Compression{.alone = topk}}) {
    std::vector<Tensor> tensors(2, tensor(5000));
    for (Tensor& one : tensors) one.compression = compression;
    EXPECT_EQ(compose(tensors, 1 << 20).size(), 2U);
  }
}

TEST(Buckets, HaveAPieceForATensorWithoutElements) {
  const std::vector<Bucket> alone = compose(std::vector{tensor(0)}, 4096);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_THAT(alone[0].pieces, ElementsAre(Piece{0, 0, 0, 0}));
  EXPECT_FALSE(alone[0].staged);
  const std::vector<Bucket> shared = compose(std::vector{tensor(5), tensor(0), tensor(6)}, 4096);
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_THAT(tensors_of(shared[0]), ElementsAre(2U, 1U, 0U));
}

TEST(Buckets, OfDifferentSeedsOrTypesAreDifferent) {
  std::vector<Tensor> tensors(2, tensor(5000, "int8"));
  EXPECT_EQ(compose(tensors, 1 << 20).size(), 1U);
  tensors[0].compression.seed = 1;
  EXPECT_EQ(compose(tensors, 1 << 20).size(), 2U);
  std::vector<Tensor> exact(2, tensor(5000));
  exact[0].compression.seed = 1;  // of no codec
  EXPECT_EQ(compose(exact, 1 << 20).size(), 1U);
  exact[0].type = DataType::kFloat64;
  EXPECT_EQ(compose(exact, 1 << 20).size(), 2U);
}

}  // namespace
}  // namespace banyan::buckets_test
