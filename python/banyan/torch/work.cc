// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/work.h"

#include <memory>
#include <mutex>
#include <utility>

namespace banyan::process_group {
namespace {

std::vector<c10::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu() && (devices.empty() || devices.back() != tensor.device()))
      devices.push_back(tensor.device());
  }
  return devices;
}

c10::TypePtr type_of(size_t lists) {
  const c10::TypePtr one = c10::ListType::create(c10::TensorType::get());
  return lists == 1 ? one : c10::ListType::create(one);
}

}  // namespace

Work::Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs, uint64_t sequence, size_t lists)
    : c10d::Work(rank, type, title, inputs),
      outputs_(std::move(outputs)),
      lists_(lists),
      future_(c10::make_intrusive<c10::ivalue::Future>(type_of(lists), devices_of(outputs_))),
      sequence_(sequence) {}

c10::IValue Work::value() const {
  if (lists_ == 1) return c10::IValue(outputs_);
  std::vector<std::vector<at::Tensor>> lists;
  const auto length = static_cast<std::ptrdiff_t>(outputs_.size() / lists_);
  for (auto part = outputs_.begin(); part != outputs_.end(); part += length)
    lists.emplace_back(part, part + length);
  return c10::IValue(lists);
}

void Work::complete() {
  future_->markCompleted(value());
  finish();
}

void Work::fail(const std::exception_ptr& error) {
  future_->setError(error);
  finish(error);
}

c10::intrusive_ptr<c10d::Work> all_of(int rank, std::vector<WorkRef> parts, uint64_t sequence) {
  std::vector<at::Tensor> outputs;
  for (const WorkRef& part : parts) {
    const std::vector<at::Tensor> made = part->result();
    outputs.insert(outputs.end(), made.begin(), made.end());
  }
  auto whole = c10::make_intrusive<Work>(rank, c10d::OpType::COALESCED, nullptr,
                                         std::vector<at::Tensor>(), std::move(outputs), sequence);
  struct Open {
    std::mutex mutex;
    size_t count;
    std::exception_ptr error;
  };
  const auto open = std::make_shared<Open>();
  open->count = parts.size() + 1;
  const auto close = [whole, open](const std::exception_ptr& error) {
    std::unique_lock lock(open->mutex);
    if (error && !open->error) open->error = error;
    if (--open->count > 0) return;
    lock.unlock();
    if (open->error) {
      whole->fail(open->error);
    } else {
      whole->complete();
    }
  };
  for (const WorkRef& part : parts) {
    part->getFuture()->addCallback([close](c10::ivalue::Future& future) {
      close(future.hasError() ? future.exception_ptr() : nullptr);
    });
  }
  close(nullptr);
  return whole;
}

}  // namespace banyan::process_group
