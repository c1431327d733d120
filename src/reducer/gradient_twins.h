// Gradients in the memory of GPUs. A bucket whose pieces are all in that of one GPU is filled,
// reduced and delivered there. Otherwise they have twins in memory of the host while their bucket
// is under way, which works on those:
//
//   BANYAN_TRY(twins.bring(bucket, pieces));  // those on a device become addresses of twins
//   ... the bucket is filled, reduced and delivered ...
//   BANYAN_TRY(twins.take_back(bucket));
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
#include "src/reducer/gpu_packing.h"

namespace banyan {

// A part of a tensor's gradient.
struct GradientPiece {
  std::byte* address = nullptr;
  size_t bytes = 0;      // that its bucket reads
  size_t own_bytes = 0;  // of those, that it writes
  bool on_device = false;
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
  // Copies what the twins have become to where they are from. Nothing, where there are none.
  Status take_back(size_t bucket);

  // The work of the GPU in whose memory all of the pieces are; null: there is none, or it has no
  // kernels.
  PackingWork* work_on_gpu(std::span<const GradientPiece> pieces);
  // So many bytes of the GPU in whose memory a piece is; null: it has none left.
  std::byte* take_beside(const GradientPiece& piece, size_t bytes);
  void give_back(const std::byte* memory) { copies_->give_back(memory); }

 private:
  struct Room {
    ScratchPool* pool;
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
  std::map<OpenGpu*, std::unique_ptr<GpuPacking>> on_gpus_;
};

}  // namespace banyan
