// Whatever bytes a checkpoint is, as it comes and with its length and checksum made right: it is
// refused with a reason, or written to the same bytes again. For libFuzzer (tests/fuzz/run) and for
// replay_files.cc.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "src/reducer/checkpoint.h"
#include "tests/fuzz/sealed.h"

namespace banyan {
namespace {

using Blob = std::vector<std::byte>;

constexpr size_t kHeader = 48, kLengthAt = 32, kChecksumAt = 44;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "checkpoint_fuzz: %s\n", what);
  std::abort();
}

Runs one_run(const std::vector<float>& values) {
  return {std::span(values)};
}

Blob written(const Checkpoint& checkpoint) {
  CheckpointView view{checkpoint.ranks, checkpoint.rank, checkpoint.steps};
  for (const TensorState& tensor : checkpoint.tensors)
    view.tensors.push_back({tensor.id, tensor.count, tensor.exact_until, one_run(tensor.residual),
                            one_run(tensor.momentum)});
  Blob blob(checkpoint_bytes(view));
  write_checkpoint(view, blob);
  return blob;
}

void read_one(std::span<const std::byte> bytes) {
  const Result<Checkpoint> read = parse_checkpoint(bytes);
  if (!read.ok()) {
    require(read.status().code() == Code::kCorrupt, "refused as what it is not");
    return require(!read.status().message().empty(), "refused without a word");
  }
  const Blob again = written(*read);
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
          "written to other bytes");
  std::vector<Tensor> model;
  for (const TensorState& tensor : read->tensors)
    model.push_back({.id = tensor.id, .name = "", .count = tensor.count});
  require(check_against(*read, model).ok(), "not of its own model");
}

Blob made_right(std::span<const std::byte> bytes) {
  Blob copy(bytes.begin(), bytes.end());
  const uint64_t length = copy.size();
  std::memcpy(copy.data() + kLengthAt, &length, sizeof length);
  return sealed(std::move(copy), kChecksumAt);
}

}  // namespace
}  // namespace banyan

// NOLINTBEGIN(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  banyan::read_one(bytes);
  if (size >= banyan::kHeader) banyan::read_one(banyan::made_right(bytes));
  return 0;
}
// NOLINTEND(readability-identifier-naming)
