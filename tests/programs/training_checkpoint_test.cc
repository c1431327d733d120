// The example's checkpoints: what comes back, what a job of another size takes over, and what is
// refused.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/train_mnist/checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace banyan::example::training_checkpoint_test {
namespace {

constexpr Shape kSmall{.inputs = 3, .hidden = 2, .outputs = 2};

Checkpoint checkpoint_of(int rank, int ranks) {
  Checkpoint checkpoint{kSmall, ranks, rank, 7, {}, {}, {}};
  for (size_t i = 0; i < kSmall.parameters(); ++i) {
    checkpoint.parameters.push_back(static_cast<float>(i) / 3);
    checkpoint.velocity.push_back(-static_cast<float>(i) / 7);
  }
  // Ranks have different parts of the reducer's, of different lengths.
  checkpoint.reducer.assign(static_cast<size_t>(rank) + 1, std::byte(10 + rank));
  return checkpoint;
}

class TrainingCheckpointTest : public testing::Test {
 protected:
  std::string file() const { return folder_.path() / "job"; }
  std::string path_of(int rank) const { return checkpoint_path(file(), rank); }
  void write(const Checkpoint& checkpoint) const {
    const Status written = write_checkpoint(path_of(checkpoint.rank), checkpoint);
    EXPECT_TRUE(written.ok()) << written.message();
  }
  void write_job(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) write(checkpoint_of(rank, ranks));
  }
  std::string bytes_of(int rank) const {
    std::ifstream in(path_of(rank), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_bytes(int rank, const std::string& bytes) const {
    std::ofstream(path_of(rank), std::ios::binary) << bytes;
  }
  // The text of the failure to take over; "(accepted)" where there is none.
  std::string refusal(const Shape& shape, int rank = 0, int size = 1) const {
    const auto found = inherit(file(), shape, rank, size);
    return found.ok() ? "(accepted)" : std::string(found.status().message());
  }

  test::TemporaryFolder folder_;
};

#define EXPECT_SAYS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "it says: " << (text)

TEST_F(TrainingCheckpointTest, WhatWasWrittenComesBack) {
  const Checkpoint written = checkpoint_of(1, 4);
  write(written);
  const auto read = read_checkpoint(path_of(1));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->shape, written.shape);
  EXPECT_EQ(read->ranks, 4);
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->epochs, 7);
  EXPECT_EQ(read->parameters, written.parameters);
  EXPECT_EQ(read->velocity, written.velocity);
  EXPECT_EQ(read->reducer, written.reducer);
}

TEST_F(TrainingCheckpointTest, EachFormerRankIsTakenOverByOne) {
  constexpr int kFormer = 5;
  write_job(kFormer);
  for (const int size : {1, 2, 3, 5, 7}) {
    std::vector<int> times(kFormer);
    for (int rank = 0; rank < size; ++rank) {
      const auto found = inherit(file(), kSmall, rank, size);
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_EQ(found->checkpoint.parameters, checkpoint_of(0, kFormer).parameters);
      for (const auto& part : found->reducers) {
        const auto former = std::to_integer<size_t>(part.at(0)) - 10;
        EXPECT_EQ(static_cast<int>(former) % size, rank);
        ++times.at(former);
      }
    }
    EXPECT_EQ(times, std::vector<int>(kFormer, 1)) << size << " ranks";
  }
}

TEST_F(TrainingCheckpointTest, EveryAlteredByteIsSeen) {
  write(checkpoint_of(0, 1));
  const std::string good = bytes_of(0);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    write_bytes(0, bad);
    EXPECT_EQ(read_checkpoint(path_of(0)).status().code(), Code::kCorrupt) << "byte " << at;
  }
}

TEST_F(TrainingCheckpointTest, EveryCutIsSeen) {
  write(checkpoint_of(0, 1));
  const std::string good = bytes_of(0);
  for (size_t length = 0; length < good.size(); ++length) {
    write_bytes(0, good.substr(0, length));
    EXPECT_EQ(read_checkpoint(path_of(0)).status().code(), Code::kCorrupt) << length << " bytes";
  }
  write_bytes(0, good + '\0');
  EXPECT_EQ(read_checkpoint(path_of(0)).status().code(), Code::kCorrupt);
}

TEST_F(TrainingCheckpointTest, WhatDoesNotBelongTogetherIsRefused) {
  EXPECT_SAYS(refusal(kSmall), path_of(0));
  write_job(3);
  EXPECT_EQ(refusal(kSmall), "(accepted)");
  EXPECT_SAYS(refusal({.inputs = 3, .hidden = 4, .outputs = 2}), "3-2-2, and this one is 3-4-2");

  Checkpoint later = checkpoint_of(1, 3);
  ++later.epochs;
  write(later);
  EXPECT_SAYS(refusal(kSmall), "rank 1 of 3 after epoch 8");
  EXPECT_EQ(refusal(kSmall, 0, 2), "(accepted)") << "that is rank 1's to refuse";
  std::filesystem::copy(path_of(2), path_of(1), std::filesystem::copy_options::overwrite_existing);
  EXPECT_SAYS(refusal(kSmall), "rank 2 of 3 after epoch 7");
  write(checkpoint_of(1, 2));
  EXPECT_SAYS(refusal(kSmall), "rank 1 of 2 after epoch 7");
}

TEST_F(TrainingCheckpointTest, AFileIsReplacedWhole) {
  write_job(1);
  Checkpoint later = checkpoint_of(0, 1);
  ++later.epochs;
  ASSERT_TRUE(write_checkpoint(path_of(0) + ".new", later).ok());
  ASSERT_TRUE(replace_file(path_of(0), path_of(0) + ".new").ok());
  const auto read = read_checkpoint(path_of(0));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->epochs, 8);
  EXPECT_FALSE(replace_file(path_of(0), path_of(0) + ".new").ok()) << "it is gone";
}

TEST_F(TrainingCheckpointTest, WhatCannotBeWrittenIsSaid) {
  const Status written = write_checkpoint(folder_.path() / "none" / "job.0", checkpoint_of(0, 1));
  EXPECT_EQ(written.code(), Code::kSystem);
  EXPECT_SAYS(written.message(), "none/job.0: it cannot be written");
}

}  // namespace
}  // namespace banyan::example::training_checkpoint_test
