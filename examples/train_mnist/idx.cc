// The reader. zlib reads plain files too, and finds damage in compressed ones by their check sum.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/idx.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>

namespace banyan::example {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of one array
constexpr size_t kChunk = size_t{1} << 20;

Status wrong(const std::string& path, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", path, what)};
}

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, CloseFile>;

// As many bytes as there are, up to the size of `into`.
Result<size_t> read_some(const File& file, const std::string& path, std::span<uint8_t> into) {
  const int read = gzread(file.get(), into.data(), static_cast<unsigned>(into.size()));
  int error = Z_OK;
  const char* text = gzerror(file.get(), &error);
  // Compressed data that ends too early is Z_BUF_ERROR with everything before it delivered.
  if (read < 0 || (error != Z_OK && error != Z_STREAM_END)) {
    return wrong(path, fmt::format("cannot be decompressed: {}; is the download complete?", text));
  }
  return static_cast<size_t>(read);
}

uint32_t big_endian(std::span<const uint8_t, 4> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
         uint32_t{bytes[3]};
}

// The sizes; their product is at most kMostBytes.
Result<std::vector<uint32_t>> read_header(const File& file, const std::string& path,
                                          int dimensions) {
  std::array<uint8_t, 16> header{};
  const size_t expected = 4 * (1 + static_cast<size_t>(dimensions));
  auto read = read_some(file, path, std::span(header).first(expected));
  if (!read.ok()) return read.status();
  const uint32_t magic = big_endian(std::span(header).first<4>());
  const uint32_t right = 0x800U + static_cast<uint32_t>(dimensions);
  if (*read >= 4 && magic != right) {
    return wrong(path, fmt::format("is no IDX file of bytes in {} dimensions: it starts with "
                                   "{:#010x} instead of {:#010x}",
                                   dimensions, magic, right));
  }
  if (*read < expected) {
    return wrong(path,
                 fmt::format("ends after {} bytes, within the header of {}", *read, expected));
  }
  std::vector<uint32_t> sizes;
  uint64_t total = 1;
  for (size_t at = 4; at < expected; at += 4) {
    sizes.push_back(big_endian(std::span(header).subspan(at).first<4>()));
    total *= sizes.back();
    if (sizes.back() == 0 || total > kMostBytes) {
      return wrong(path, fmt::format("dimension {} claims a size of {}; expected are 1 to {} bytes "
                                     "in all",
                                     sizes.size(), sizes.back(), kMostBytes));
    }
  }
  return sizes;
}

std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* suffix : {".gz", ""}) {
    std::string path = fmt::format("{}/{}{}", folder, name, suffix);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

Result<IdxArray> read_from_folder(const std::string& folder, const std::string& name,
                                  int dimensions) {
  const std::string path = find_file(folder, name);
  if (path.empty()) {
    return Status(Code::kUnsupported,
                  fmt::format("{1}: has no readable {0}.gz or {0}; the Debian package "
                              "dataset-fashion-mnist installs it",
                              name, folder));
  }
  return read_idx(path, dimensions);
}

}  // namespace

Result<IdxArray> read_idx(const std::string& path, int dimensions) {
  const File file(gzopen(path.c_str(), "rbe"));
  if (file == nullptr) return wrong(path, "cannot be opened");
  auto sizes = read_header(file, path, dimensions);
  if (!sizes.ok()) return sizes.status();

  IdxArray array;
  array.sizes = *sizes;
  uint64_t expected = 1;
  for (const uint32_t size : array.sizes) expected *= size;
  // One byte more than there should be is asked for: that finds a file that is too long, and makes
  // zlib look at the check sum.
  while (array.bytes.size() <= expected) {
    const size_t have = array.bytes.size();
    array.bytes.resize(std::min<uint64_t>(expected + 1, have + kChunk));
    auto read = read_some(file, path, std::span(array.bytes).subspan(have));
    if (!read.ok()) return read.status();
    array.bytes.resize(have + *read);
    if (*read == 0) break;
  }
  if (array.bytes.size() < expected) {
    return wrong(path, fmt::format("ends after {} bytes of data; its header promises {}",
                                   array.bytes.size(), expected));
  }
  if (array.bytes.size() > expected) {
    return wrong(
        path, fmt::format("goes on after the {} bytes of data that its header promises", expected));
  }
  return array;
}

Result<Dataset> load_dataset(const std::string& folder, std::string_view name, int classes) {
  auto images = read_from_folder(folder, fmt::format("{}-images-idx3-ubyte", name), 3);
  if (!images.ok()) return images.status();
  auto labels = read_from_folder(folder, fmt::format("{}-labels-idx1-ubyte", name), 1);
  if (!labels.ok()) return labels.status();

  if (images->sizes[0] != labels->sizes[0]) {
    return wrong(folder, fmt::format("'{}' has {} images but {} labels", name, images->sizes[0],
                                     labels->sizes[0]));
  }
  const auto bad = std::find_if(labels->bytes.begin(), labels->bytes.end(),
                                [classes](uint8_t label) { return label >= classes; });
  if (bad != labels->bytes.end()) {
    return wrong(folder, fmt::format("'{}' has label {} at position {}; expected are 0 to {}", name,
                                     *bad, bad - labels->bytes.begin(), classes - 1));
  }
  Dataset dataset;
  dataset.count = static_cast<int>(images->sizes[0]);
  dataset.pixels = static_cast<int>(images->sizes[1] * images->sizes[2]);
  dataset.images = std::move(images->bytes);
  dataset.labels = std::move(labels->bytes);
  return dataset;
}

}  // namespace banyan::example
