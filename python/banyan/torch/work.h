// What the backend returns for an operation: done when its result is in place.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace banyan::process_group {

class Work final : public c10d::Work {
 public:
  // The title appears in profiles. The outputs become the value of the future: one list, or several
  // of the same length.
  Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       std::vector<at::Tensor> outputs, uint64_t sequence, size_t lists = 1);

  // Ends the operation, once. It calls what others have put on the future: hold no lock.
  void complete();
  void fail(const std::exception_ptr& error);
  void set_source(int rank) { source_ = rank; }

  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  c10::IValue value() const;

  std::vector<at::Tensor> outputs_;
  size_t lists_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  uint64_t sequence_;
  std::atomic<int> source_ = -1;
};

using WorkRef = c10::intrusive_ptr<Work>;

// Ends when all parts have, with the first error among them.
c10::intrusive_ptr<c10d::Work> all_of(int rank, std::vector<WorkRef> parts, uint64_t sequence);

}  // namespace banyan::process_group
