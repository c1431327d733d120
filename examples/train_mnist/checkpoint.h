// What a rank of a training job needs to go on later, in a file.
//
// A file has numbers of eight bytes: kMagic, the version, Shape's three, ranks, rank, epochs, the
// bytes of the reducer's part, and a checksum of the file with 0 in this place; then parameters and
// velocity as floats, and the reducer's part. Byte order is the machine's.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "examples/train_mnist/network.h"

namespace banyan::example {

struct Checkpoint {
  Shape shape;
  int ranks = 1;  // of the job that wrote it
  int rank = 0;
  int epochs = 0;                  // that are done
  std::vector<float> parameters;   // the same on all ranks
  std::vector<float> velocity;     // likewise
  std::vector<std::byte> reducer;  // what banyan_reducer_save wrote
};

// The file of one rank.
std::string checkpoint_path(const std::string& file, int rank);
Status write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// Replaces a file by another, whole.
Status replace_file(const std::string& path, const std::string& by);
// kCorrupt: it is cut, altered, or of another version.
Result<Checkpoint> read_checkpoint(const std::string& path);

// What a rank of a new job takes over.
struct Inheritance {
  Checkpoint checkpoint;                         // of former rank 0
  std::vector<std::vector<std::byte>> reducers;  // of former ranks `rank`, `rank` + `size`, ...
};
// kInvalidArgument: the files are of another network, or not all of one time.
Result<Inheritance> inherit(const std::string& file, const Shape& shape, int rank, int size);

}  // namespace banyan::example
