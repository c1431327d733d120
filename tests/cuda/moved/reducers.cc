// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "banyan/types.h"
#include "tests/cuda/moved/calls.h"
#include "tests/cuda/moved/gpus.h"
#include "tests/cuda/moved/moved_buffers.h"

namespace banyan::test {

DECLARE_REAL(banyan_reducer_create)
DECLARE_REAL(banyan_reducer_destroy)
DECLARE_REAL(banyan_reducer_ready)
DECLARE_REAL(banyan_reducer_wait)

namespace {

// A tensor, and its gradient that is moved, if it is on its way.
struct MovedTensor {
  size_t bytes = 0;
  uint64_t times_ready = 0;
  std::unique_ptr<MovedBuffers> gradient;
};

// Any thread.
class MovedReducer {
 public:
  MovedReducer(int gpu, std::span<const banyan_tensor_t> tensors) : gpu_(gpu) {
    for (const banyan_tensor_t& tensor : tensors)
      tensors_[tensor.id].bytes = tensor.count * size_of(static_cast<DataType>(tensor.datatype));
  }

  template <typename Ready>
  banyan_result_t ready(uint64_t id, void* gradient, const Ready& real) {
    const auto found = tensors_.find(id);
    if (found == tensors_.end() || gradient == nullptr) return real(gradient);
    const HostBuffer buffer{gradient, found->second.bytes};
    auto moved = std::make_unique<MovedBuffers>(gpu_, HostBuffer(), buffer);
    moved->bring_in();
    const std::lock_guard lock(mutex_);
    MovedTensor& tensor = found->second;
    const banyan_result_t result = real(moved->recv());
    if (result != BANYAN_SUCCESS) return result;
    if (tensor.gradient != nullptr) tensor.gradient->take_out();  // the waiter is not there yet
    tensor.gradient = std::move(moved);
    ++tensor.times_ready;
    return result;
  }

  // A tensor that is made ready again before the waiter of its last time gets here is left alone.
  template <typename Wait>
  banyan_result_t wait(uint64_t id, const Wait& real) {
    const std::map<uint64_t, uint64_t> waited_for = times_after(id);
    const banyan_result_t result = real();
    if (result != BANYAN_SUCCESS) return result;
    const std::lock_guard lock(mutex_);
    for (const auto& [tensor_id, times] : waited_for) {
      MovedTensor& tensor = tensors_.at(tensor_id);
      if (tensor.gradient == nullptr || tensor.times_ready > times) continue;
      tensor.gradient->take_out();
      tensor.gradient = nullptr;
    }
    return result;
  }

 private:
  // By tensor: how often it will have been ready when the wait has ended. All of none: at once.
  std::map<uint64_t, uint64_t> times_after(uint64_t id) {
    const std::lock_guard lock(mutex_);
    std::map<uint64_t, uint64_t> times;
    bool any = id != BANYAN_ALL_TENSORS;
    for (const auto& [tensor_id, tensor] : tensors_) {
      if (id != BANYAN_ALL_TENSORS && id != tensor_id) continue;
      any = any || tensor.gradient != nullptr;
      times[tensor_id] = tensor.times_ready + (tensor.gradient == nullptr ? 1 : 0);
    }
    return any ? times : std::map<uint64_t, uint64_t>();
  }

  const int gpu_;
  std::mutex mutex_;
  std::map<uint64_t, MovedTensor> tensors_;
};

class MovedReducers {
 public:
  void add(banyan_reducer_t handle, std::shared_ptr<MovedReducer> reducer) {
    const std::lock_guard lock(mutex_);
    reducers_[handle] = std::move(reducer);
  }
  void remove(banyan_reducer_t handle) {
    const std::lock_guard lock(mutex_);
    reducers_.erase(handle);
  }
  // Null: it was not made, or has ended.
  std::shared_ptr<MovedReducer> find(banyan_reducer_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = reducers_.find(handle);
    return found == reducers_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<banyan_reducer_t, std::shared_ptr<MovedReducer>> reducers_;
};

MovedReducers& moved_reducers() {
  static auto* const reducers = new MovedReducers;
  return *reducers;
}

}  // namespace

extern "C" {

MOVED(banyan_reducer_create)
(banyan_comm_t comm, const banyan_tensor_t* tensors, size_t tensor_count,
 const banyan_reducer_config_t* config, banyan_reducer_t* reducer) {
  const banyan_result_t result =
      REAL(banyan_reducer_create)(comm, tensors, tensor_count, config, reducer);
  int rank = 0;
  if (result != BANYAN_SUCCESS || banyan_comm_rank(comm, &rank) != BANYAN_SUCCESS) return result;
  const int gpu = rank % Gpus::of_process().count();
  moved_reducers().add(*reducer,
                       std::make_shared<MovedReducer>(gpu, std::span(tensors, tensor_count)));
  return result;
}

MOVED(banyan_reducer_ready)(banyan_reducer_t reducer, uint64_t id, void* gradient) {
  const auto real = [&](void* there) { return REAL(banyan_reducer_ready)(reducer, id, there); };
  const std::shared_ptr<MovedReducer> moved = moved_reducers().find(reducer);
  return moved == nullptr ? real(gradient) : moved->ready(id, gradient, real);
}

MOVED(banyan_reducer_wait)(banyan_reducer_t reducer, uint64_t id) {
  const auto real = [&] { return REAL(banyan_reducer_wait)(reducer, id); };
  const std::shared_ptr<MovedReducer> moved = moved_reducers().find(reducer);
  return moved == nullptr ? real() : moved->wait(id, real);
}

MOVED(banyan_reducer_destroy)(banyan_reducer_t reducer) {
  const banyan_result_t result = REAL(banyan_reducer_destroy)(reducer);
  if (result == BANYAN_SUCCESS) moved_reducers().remove(reducer);
  return result;
}

}  // extern "C"
}  // namespace banyan::test
