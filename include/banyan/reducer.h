// This is the C++ face of the gradient reducer (c_reducer.h).
//
//   std::vector<banyan_tensor_t> tensors = ...;  // the first layer first
//   auto reducer = banyan::Reducer::create(communicator, tensors);
//   // backward pass, from the last layer to the first:
//   BANYAN_TRY(reducer->ready(tensors[2].id, gradient_of_layer_2));
//   ...
//   BANYAN_TRY(reducer->wait());  // all gradients are means over the ranks
//
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/communicator.h"
#include "banyan/status.h"

namespace banyan {
inline namespace api {

// Owns a reducer; the communicator outlives it. A Reducer that is destroyed while tensors are on
// their way aborts the communicator first, as a Communicator does that was not finalized.
class Reducer {
 public:
  // Collective. As banyan_reducer_create; `config` may be null.
  static Result<Reducer> create(Communicator& communicator,
                                std::span<const banyan_tensor_t> tensors,
                                const banyan_reducer_config_t* config = nullptr) {
    Reducer reducer(communicator.handle());
    BANYAN_TRY(status(banyan_reducer_create(reducer.comm_, tensors.data(), tensors.size(), config,
                                            &reducer.reducer_)));
    return reducer;
  }

  Reducer(Reducer&& other) noexcept
      : comm_(other.comm_), reducer_(std::exchange(other.reducer_, nullptr)) {}
  Reducer& operator=(Reducer&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(reducer_, other.reducer_);
    return *this;
  }
  ~Reducer() {
    if (banyan_reducer_destroy(reducer_) != BANYAN_ERR_INVALID_USAGE) return;
    banyan_comm_abort(comm_);
    banyan_reducer_destroy(reducer_);
  }

  banyan_reducer_t handle() const { return reducer_; }

  // Any thread, in any order.
  Status ready(uint64_t id, void* gradient) {
    return status(banyan_reducer_ready(reducer_, id, gradient));
  }
  Status wait(uint64_t id = BANYAN_ALL_TENSORS) {
    return status(banyan_reducer_wait(reducer_, id));
  }
  // What this rank keeps between steps.
  Result<std::vector<std::byte>> save() {
    size_t bytes = 0;
    BANYAN_TRY(status(banyan_reducer_save(reducer_, nullptr, &bytes)));
    std::vector<std::byte> blob(bytes);
    BANYAN_TRY(status(banyan_reducer_save(reducer_, blob.data(), &bytes)));
    blob.resize(bytes);
    return blob;
  }
  // Those of all former ranks that this one takes over.
  Status load(std::span<const std::vector<std::byte>> blobs) {
    std::vector<const void*> starts;
    std::vector<size_t> sizes;
    for (const std::vector<std::byte>& blob : blobs) {
      starts.push_back(blob.data());
      sizes.push_back(blob.size());
    }
    return status(banyan_reducer_load(reducer_, starts.data(), sizes.data(), blobs.size()));
  }
  Result<banyan_tensor_stats_t> stats(uint64_t id = BANYAN_ALL_TENSORS) {
    banyan_tensor_stats_t stats{};
    stats.size = sizeof stats;
    BANYAN_TRY(status(banyan_reducer_stats(reducer_, id, &stats)));
    return stats;
  }

 private:
  explicit Reducer(banyan_comm_t comm) : comm_(comm) {}

  static Status status(banyan_result_t result) {
    if (result == BANYAN_SUCCESS) return {};
    return {static_cast<Code>(result), banyan_last_error(nullptr)};
  }

  banyan_comm_t comm_;
  banyan_reducer_t reducer_ = nullptr;
};

}  // namespace api
}  // namespace banyan
