// The IDX reader of the example, against whole, damaged and hostile files.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/idx.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace banyan::example::idx_test {
namespace {

using std::string_literals::operator""s;  // NOLINT(misc-unused-using-decls): it is used

// Two images of 2 x 3 pixels, and their labels.
const std::string images_file =
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s
    "abcdefghijkl";
const std::string labels_file = "\0\0\x08\x01\0\0\0\x02\x07\x09"s;

class IdxTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string write_gzip(const std::string& name, const std::string& content) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())),
              static_cast<int>(content.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return path(name);
  }
  std::string path(const std::string& name) const { return folder_.path() / name; }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The message of what must be an error, naming the file.
  static std::string error_of(const std::string& path, int dimensions = 3) {
    const auto array = read_idx(path, dimensions);
    if (array.ok()) return "(accepted)";
    EXPECT_EQ(array.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(array.status().message().starts_with(path)) << array.status().message();
    return std::string(array.status().message());
  }

  test::TemporaryFolder folder_;
};

#define EXPECT_SAYS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "it says: " << (text)

TEST_F(IdxTest, ReadsPlainAndGzippedFiles) {
  for (const std::string& path : {write("plain", images_file), write_gzip("zipped", images_file)}) {
    const auto array = read_idx(path, 3);
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->sizes, (std::vector<uint32_t>{2, 2, 3}));
    EXPECT_EQ(std::string(array->bytes.begin(), array->bytes.end()), "abcdefghijkl");
  }
}

TEST_F(IdxTest, ReadsMoreThanOneChunk) {
  std::string large = "\0\0\x08\x01\0\x28\0\x01"s;  // 2.5 MiB and one byte
  large.append(0x280001, 'x');
  const auto array = read_idx(write_gzip("large", large), 1);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->bytes.size(), 0x280001U);
}

TEST_F(IdxTest, NamesAWrongMagicNumber) {
  EXPECT_SAYS(error_of(write("text", "This is no IDX file at all.")), "0x54686973");
  EXPECT_SAYS(error_of(write("labels", labels_file)), "instead of 0x00000803");
  EXPECT_SAYS(error_of(write("floats", "\0\0\x0d\x03"s + images_file.substr(4))), "0x00000d03");
}

TEST_F(IdxTest, EveryTruncationIsAnError) {
  for (size_t length = 0; length < images_file.size(); ++length) {
    EXPECT_SAYS(error_of(write("short", images_file.substr(0, length))), "ends after");
  }
  EXPECT_SAYS(error_of(write("short", images_file.substr(0, 20))), "promises 12");
}

TEST_F(IdxTest, EveryTruncationOfAGzippedFileIsAnError) {
  const std::string whole = bytes_of(write_gzip("zipped", images_file));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of(write("short.gz", whole.substr(0, length))), "(accepted)") << length;
  }
}

TEST_F(IdxTest, FindsADamagedGzippedFile) {
  const std::string whole = bytes_of(write_gzip("zipped", images_file));
  std::string damaged = whole;
  damaged[whole.size() - 6] ^= 1;  // in the check sum
  EXPECT_SAYS(error_of(write("damaged.gz", damaged)), "cannot be decompressed");
}

TEST_F(IdxTest, FindsAFileThatGoesOn) {
  EXPECT_SAYS(error_of(write("long", images_file + "m")), "goes on after the 12 bytes");
}

TEST_F(IdxTest, HostileSizesCostNothing) {
  EXPECT_SAYS(
      error_of(write("huge", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s)),
      "4294967295");
  EXPECT_SAYS(error_of(write("empty", "\0\0\x08\x03\0\0\0\x02\0\0\0\0\0\0\0\x03"s)), "size of 0");
  // 1 GiB is allowed, but there is nothing behind it.
  EXPECT_SAYS(error_of(write("big", "\0\0\x08\x01\x40\0\0\0"s), 1), "ends after 0 bytes");
}

TEST_F(IdxTest, LoadsImagesWithTheirLabels) {
  write("train-images-idx3-ubyte", images_file);
  write_gzip("train-labels-idx1-ubyte.gz", labels_file);
  const auto dataset = load_dataset(folder_.path(), "train", 10);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ(dataset->count, 2);
  EXPECT_EQ(dataset->pixels, 6);
  EXPECT_EQ(dataset->labels, (std::vector<uint8_t>{7, 9}));
}

TEST_F(IdxTest, SaysWhatDoesNotFitTogether) {
  EXPECT_EQ(load_dataset(folder_.path(), "t10k", 10).status().code(), Code::kUnsupported);
  EXPECT_SAYS(load_dataset(folder_.path(), "t10k", 10).status().message(), "dataset-fashion-mnist");

  write("t10k-images-idx3-ubyte", images_file);
  write("t10k-labels-idx1-ubyte", labels_file);
  EXPECT_SAYS(load_dataset(folder_.path(), "t10k", 9).status().message(), "label 9 at position 1");
  write("t10k-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x03\x01\x01\x01"s);
  EXPECT_SAYS(load_dataset(folder_.path(), "t10k", 10).status().message(), "2 images but 3 labels");
}

}  // namespace
}  // namespace banyan::example::idx_test
