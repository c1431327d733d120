// Reads the IDX files of MNIST and its kin, plain or gzipped.
//
// A file is hostile until it has been checked: every error names the file, what is wrong in it and
// what would be right, and no more memory is taken than the file has data.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"

namespace banyan::example {

// An array of bytes with `sizes.size()` dimensions.
struct IdxArray {
  std::vector<uint32_t> sizes;
  std::vector<uint8_t> bytes;
};

// Reads a file of unsigned bytes with that many dimensions, 1 to 3. It has
//   0, 0, 8 (unsigned bytes), dimensions; the sizes, 32 bits each, big-endian; then the bytes.
Result<IdxArray> read_idx(const std::string& path, int dimensions);

// Images and the class that each belongs to.
struct Dataset {
  int count = 0;
  int pixels = 0;               // of one image
  std::vector<uint8_t> images;  // count x pixels
  std::vector<uint8_t> labels;  // count, each below `classes`
};

// Reads NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte, with or without ".gz", from the folder.
// `name` is "train" or "t10k". kUnsupported: they are not there.
Result<Dataset> load_dataset(const std::string& folder, std::string_view name, int classes);

}  // namespace banyan::example
