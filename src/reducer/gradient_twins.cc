// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/gradient_twins.h"

#include <new>
#include <utility>

#include "src/cuda/device_memory.h"

namespace banyan {
namespace {

constexpr size_t kTwinAlignment = 64;

size_t aligned(size_t bytes) {
  return (bytes + kTwinAlignment - 1) / kTwinAlignment * kTwinAlignment;
}

}  // namespace

GradientTwins::~GradientTwins() {
  for (auto& [bucket, room] : rooms_) room.pool->give_back(room.memory, room.bytes);
}

Status GradientTwins::prepare(const void* on_device) {
  if (copies_ == nullptr) {
    const CudaFunctions* cuda = cuda_of_process();
    if (cuda == nullptr) return {Code::kUnsupported, "this process has no CUDA driver"};
    Result<std::unique_ptr<CopyWork>> copies = CopyWork::create(*cuda);
    BANYAN_TRY(copies.status());
    copies_ = std::move(*copies);
    pinned_.emplace(*copies_);
  }
  return copies_->open(on_device);
}

Status GradientTwins::bring(size_t bucket, std::span<GradientPiece> pieces) {
  size_t bytes = 0;
  const void* on_device = nullptr;
  for (const GradientPiece& piece : pieces) {
    if (!piece.on_device || piece.bytes == 0) continue;
    bytes += aligned(piece.bytes);
    on_device = piece.address;
  }
  if (bytes == 0) return {};
  const Status prepared = prepare(on_device);
  ScratchPool& pool = prepared.ok() ? *pinned_ : plain_;
  Room& room = rooms_.emplace(bucket, Room{&pool, pool.take(bytes), bytes}).first->second;
  if (room.memory == nullptr) throw std::bad_alloc();
  std::byte* twin = room.memory;
  for (GradientPiece& piece : pieces) {
    if (!piece.on_device || piece.bytes == 0) continue;
    room.copies.push_back({twin, piece.address, piece.bytes});
    if (piece.own_bytes != 0) room.returns.push_back({piece.address, twin, piece.own_bytes});
    piece.address = twin;
    twin += aligned(piece.bytes);
  }
  return prepared.ok() ? copies_->copy_now(room.copies) : prepared;
}

PackingWork* GradientTwins::work_on_gpu(std::span<const GradientPiece> pieces) {
  OpenGpu* all_of = nullptr;
  for (const GradientPiece& piece : pieces) {
    if (!piece.on_device || piece.bytes == 0 || !prepare(piece.address).ok()) return nullptr;
    const Result<OpenGpu*> gpu = copies_->gpu_of(piece.address);
    if (!gpu.ok() || (all_of != nullptr && *gpu != all_of)) return nullptr;
    all_of = *gpu;
  }
  if (all_of == nullptr || all_of->kernels() == nullptr) return nullptr;
  std::unique_ptr<GpuPacking>& work = on_gpus_[all_of];
  if (work == nullptr) work = std::make_unique<GpuPacking>(*cuda_of_process(), *all_of, *pinned_);
  return work.get();
}

std::byte* GradientTwins::take_beside(const GradientPiece& piece, size_t bytes) {
  const Result<std::byte*> memory = copies_->take_beside(piece.address, bytes);
  return memory.ok() ? *memory : nullptr;
}

Status GradientTwins::take_back(size_t bucket) {
  const auto found = rooms_.find(bucket);
  if (found == rooms_.end()) return {};
  Room& room = found->second;
  Status status = room.pool == &plain_ ? Status() : copies_->copy_now(room.returns);
  room.pool->give_back(room.memory, room.bytes);
  rooms_.erase(found);
  return status;
}

}  // namespace banyan
