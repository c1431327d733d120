// What the backend returns for an operation. On tensors of the host it is done when the result is
// in place, on those of a GPU when that is enqueued: what waits for it there waits in its stream.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <banyan/banyan.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "python/banyan/torch/device.h"

namespace banyan::process_group {

class Work final : public c10d::Work {
 public:
  // The title appears in profiles. The outputs become the value of the future: one list, or several
  // of the same length.
  Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       std::vector<at::Tensor> outputs, uint64_t sequence, size_t lists = 1);

  // For tensors of a GPU: the group that the operation is of, and whether that has ended.
  void watch(banyan_comm_t comm, std::shared_ptr<const std::atomic<bool>> ended);
  void watch(const Work& other) { watch(other.comm_, other.ended_); }

  // Ends the operation, once; on a GPU it ends where the current stream is. It calls what others
  // have put on the future: hold no lock.
  void complete();
  void fail(const std::exception_ptr& error);
  std::optional<c10::Device> device() const { return device_; }
  void set_source(int rank) { source_ = rank; }

  // Whether the GPU is through with it, too.
  bool isCompleted() override;
  // On a GPU the current stream waits, and the host only where a timeout is given: then it raises
  // what has failed meanwhile, also after other operations.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { end_.block_current_stream(); }
  void blockCurrentStream() override { synchronize(); }
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  c10::IValue value() const;

  std::vector<at::Tensor> outputs_;
  std::optional<c10::Device> device_;
  DeviceMark end_;
  banyan_comm_t comm_ = nullptr;
  std::shared_ptr<const std::atomic<bool>> ended_;
  size_t lists_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  uint64_t sequence_;
  std::atomic<int> source_ = -1;
};

using WorkRef = c10::intrusive_ptr<Work>;

// Ends when all parts have, with the first error among them.
c10::intrusive_ptr<c10d::Work> all_of(int rank, std::vector<WorkRef> parts, uint64_t sequence);

}  // namespace banyan::process_group
