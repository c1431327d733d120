// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/work.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "python/banyan/torch/comm.h"

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

std::optional<c10::Device> first_device(const std::vector<at::Tensor>& tensors) {
  const std::vector<c10::Device> devices = devices_of(tensors);
  return devices.empty() ? std::nullopt : std::optional(devices[0]);
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
      device_(first_device(inputs.empty() ? outputs_ : inputs)),
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

void Work::watch(banyan_comm_t comm, std::shared_ptr<const std::atomic<bool>> ended) {
  comm_ = comm;
  ended_ = std::move(ended);
}

bool Work::isCompleted() {
  return c10d::Work::isCompleted() && end_.is_reached();
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const WaitClock::time_point until = WaitClock::now() + timeout;
  const bool well = c10d::Work::wait(timeout);
  if (timeout == kNoTimeout || !end_ || !ended_) return well;
  if (!end_.wait(*ended_, until))
    C10_THROW_ERROR(DistBackendError,
                    "banyan: Timed out: the GPU is not through with the operation after " +
                        std::to_string(timeout.count()) + " ms");
  check_alive(comm_, "wait");
  return well;
}

void Work::complete() {
  if (device_) end_ = DeviceMark::here(*device_);
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
  if (!parts.empty()) whole->watch(*parts[0]);
  struct Open {
    std::mutex mutex;
    size_t count;
    std::exception_ptr error;
  };
  const auto open = std::make_shared<Open>();
  open->count = parts.size() + 1;
  const auto close = [whole, open, parts](const std::exception_ptr& error) {
    std::unique_lock lock(open->mutex);
    if (error && !open->error) open->error = error;
    if (--open->count > 0) return;
    lock.unlock();
    if (open->error) {
      whole->fail(open->error);
      return;
    }
    for (const WorkRef& part : parts) part->synchronize();
    whole->complete();
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
