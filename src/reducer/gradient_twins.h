// Gradients in the memory of GPUs have twins in memory of the host while their buckets are under
// way: a bucket works on those.
//
//   BANYAN_TRY(twins.bring(bucket, pieces));  // those on a device become addresses of twins
//   ... the bucket is filled, reduced and delivered ...
//   BANYAN_TRY(twins.take_back(bucket));
//
// A bucket whose call works on the memory of the device needs none: its pieces are gathered there.
//
// One thread at a time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/cuda/copy_work.h"
#include "src/engine/scratch.h"

namespace banyan {

// A part of a tensor's gradient.
struct GradientPiece {
  std::byte* address = nullptr;
  size_t bytes = 0;      // that its bucket reads
  size_t own_bytes = 0;  // of those, that it writes
  bool on_device = false;
  size_t place = 0;  // in the vector of its bucket; bytes
};

class GradientTwins {
 public:
  GradientTwins() = default;
  GradientTwins(const GradientTwins&) = delete;
  GradientTwins& operator=(const GradientTwins&) = delete;
  ~GradientTwins();

  // Copies what lies on a device, and puts the twin's address in its place; that also where it
  // fails. kCuda, kUnsupported: the driver refuses, or lacks a function. Throws std::bad_alloc.
  Status bring(size_t bucket, std::span<GradientPiece> pieces);
  // Where all pieces lie on a device: gathers them there, each at its place in a vector of so many
  // bytes, and says where that is. Fails as bring(), and where the device has no memory left.
  Result<std::byte*> pack(size_t bucket, std::span<const GradientPiece> pieces, size_t bytes);
  // Copies what the twins, or the vector, have become to where they are from. Nothing, where there
  // are none.
  Status take_back(size_t bucket);

 private:
  struct Room {
    ScratchPool* pool;  // null: of a device
    std::byte* memory;
    size_t bytes;
    std::vector<CopyWork::Copy> copies{};  // to the twins
    std::vector<CopyWork::Copy> returns{};
  };

  Status prepare(const void* on_device);

  std::unique_ptr<CopyWork> copies_;   // null: nobody had a gradient there yet
  std::optional<ScratchPool> pinned_;  // with copies_
  ScratchPool plain_;                  // where there are no copies
  std::map<size_t, Room> rooms_;       // of buckets under way
};

}  // namespace banyan
