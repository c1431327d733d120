// banyan.h: the gradient reducer.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/reducer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "src/base/process.h"
#include "src/c_api/arguments.h"
#include "src/c_api/communicator.h"
#include "src/c_api/group.h"
#include "src/c_api/registration.h"
#include "src/c_api/run.h"
#include "src/c_api/structs.h"
#include "src/cuda/device_memory.h"

namespace banyan {
namespace {

// A banyan_reducer_t.
struct OpenReducer {
  OpenCommunicator* communicator;
  std::unique_ptr<GradientReducer> reducer;
};

uint64_t place_of(banyan_reducer_t handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// Runs a body with an open reducer, which is not freed meanwhile.
template <typename Body>
banyan_result_t reducer_door(banyan_reducer_t handle, const Body& body) {
  const HandleTable::Pin pin = process().reducers.pin(place_of(handle));
  auto* open = static_cast<OpenReducer*>(pin.get());
  if (open == nullptr)
    return answer(
        {Code::kInvalidArgument,
         handle == nullptr ? "reducer is NULL" : "reducer is destroyed, or was never one"},
        nullptr);
  return door(open->communicator->handle, [&]() -> Status {
    if (!is_ours(*open->communicator))
      return {Code::kInvalidUsage,
              "the reducer belongs to the process that made this one by fork()"};
    return body(*open);
  });
}

// As reducer_door(), for what a failure of the communicator ends; it has the first say, so that all
// calls agree.
template <typename Body>
banyan_result_t live_door(banyan_reducer_t handle, const Body& body) {
  return reducer_door(handle, [&](OpenReducer& open) -> Status {
    Failure& failure = open.communicator->membership->failure();
    if (failure.failed()) return failure.status();
    Status status = body(*open.reducer);
    return failure.failed() ? failure.status() : status;
  });
}

void forget(OpenCommunicator& communicator, GradientReducer* reducer) {
  const std::lock_guard lock(communicator.reducers_mutex);
  std::erase(communicator.reducers, reducer);
}

Status create(banyan_comm_t comm, const banyan_tensor_t* tensors, size_t tensor_count,
              const banyan_reducer_config_t* given, banyan_reducer_t* handle) {
  if (handle == nullptr) return {Code::kInvalidArgument, "reducer is NULL"};
  *handle = nullptr;
  BANYAN_TRY(refuse_in_group("banyan_reducer_create"));
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  OpenCommunicator& communicator = **found;
  BANYAN_TRY(check_usable(communicator));
  look_for_cuda_driver();
  const Result<Registration> registration =
      check_registration(communicator, tensors, tensor_count, given);
  BANYAN_TRY(registration.status());
  BANYAN_TRY(agree_on(communicator, *registration));
  Result<std::unique_ptr<Membership>> own = duplicate(communicator);
  BANYAN_TRY(own.status());
  auto open = std::make_unique<OpenReducer>();
  open->communicator = &communicator;
  Result<std::unique_ptr<GradientReducer>> reducer = GradientReducer::start(
      std::move(*own), *communicator.membership, registration->tensors, registration->options);
  BANYAN_TRY(reducer.status());
  open->reducer = std::move(*reducer);
  const uint64_t place = process().reducers.insert(open.get());
  if (place == 0) return {Code::kSystem, "too many reducers in this process"};
  const std::lock_guard lock(communicator.reducers_mutex);
  communicator.reducers.push_back(open->reducer.get());
  (void)open.release();  // owned through its handle until banyan_reducer_destroy
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is a place in a table, never an address
  *handle = reinterpret_cast<banyan_reducer_t>(place);
  return {};
}

Status load(GradientReducer& reducer, const void* const* blobs, const size_t* bytes, size_t count) {
  if (count != 0 && blobs == nullptr) return {Code::kInvalidArgument, "blobs is NULL"};
  if (count != 0 && bytes == nullptr) return {Code::kInvalidArgument, "bytes is NULL"};
  std::vector<std::span<const std::byte>> spans;
  for (size_t i = 0; i < count; ++i) {
    if (blobs[i] == nullptr && bytes[i] != 0)
      return {Code::kInvalidArgument, fmt::format("blobs[{}] is NULL", i)};
    spans.emplace_back(static_cast<const std::byte*>(blobs[i]), bytes[i]);
  }
  return reducer.load(spans);
}

banyan_tensor_stats_t stats_of(const TensorFigures& figures) {
  return {.size = sizeof(banyan_tensor_stats_t),
          .steps = figures.steps,
          .bytes_raw = figures.bytes_raw,
          .bytes_sent = figures.bytes_sent,
          .nonfinite = figures.nonfinite,
          .fallbacks = figures.fallbacks,
          .error_nmse = figures.error_nmse,
          .residual_norm = figures.residual_norm,
          .codec_seconds = figures.codec_seconds,
          .wait_seconds = figures.wait_seconds};
}

Status stats(GradientReducer& reducer, uint64_t id, banyan_tensor_stats_t* stats) {
  if (stats == nullptr) return {Code::kInvalidArgument, "stats is NULL"};
  if (stats->size < sizeof(size_t))
    return {Code::kInvalidArgument,
            fmt::format("stats.size is {}; set it to the size of the struct", stats->size)};
  const Result<TensorFigures> figures =
      id == BANYAN_ALL_TENSORS ? Result<TensorFigures>(reducer.all_figures()) : reducer.figures(id);
  BANYAN_TRY(figures.status());
  banyan_tensor_stats_t whole = stats_of(*figures);
  whole.size = stats->size;
  std::memcpy(stats, &whole, std::min(stats->size, sizeof whole));
  return {};
}

Status destroy(banyan_reducer_t handle) {
  constexpr double kPatienceSeconds = 2;  // as for communicators
  if (handle == nullptr) return {};
  HandleTable& reducers = process().reducers;
  auto* open = static_cast<OpenReducer*>(reducers.find(place_of(handle)));
  if (open == nullptr) return {Code::kInvalidArgument, "reducer is destroyed, or was never one"};
  BANYAN_TRY(open->reducer->end());
  if (!reducers.wait_for_pins(place_of(handle), 0, deadline_after(kPatienceSeconds)))
    return {Code::kInvalidUsage, "another thread is inside a call on the reducer"};
  const std::unique_ptr<OpenReducer> owned(
      static_cast<OpenReducer*>(reducers.remove(place_of(handle))));
  if (owned != nullptr) forget(*owned->communicator, owned->reducer.get());
  return {};
}

}  // namespace
}  // namespace banyan

using banyan::GradientReducer;

banyan_result_t banyan_reducer_create(banyan_comm_t comm, const banyan_tensor_t* tensors,
                                      size_t tensor_count, const banyan_reducer_config_t* config,
                                      banyan_reducer_t* reducer) {
  return banyan::door(comm,
                      [&] { return banyan::create(comm, tensors, tensor_count, config, reducer); });
}

// A gradient that was taken is the reducer's, so that this must be OK, whatever has failed by then.
banyan_result_t banyan_reducer_ready(banyan_reducer_t reducer, uint64_t id, void* gradient) {
  return banyan::reducer_door(reducer, [&](banyan::OpenReducer& open) {
    banyan::Failure& failure = open.communicator->membership->failure();
    const banyan::Status status = open.reducer->ready(id, gradient);
    return !status.ok() && failure.failed() ? failure.status() : status;
  });
}

// Also after a failure it returns when the reducer touches no gradient any more.
banyan_result_t banyan_reducer_wait(banyan_reducer_t reducer, uint64_t id) {
  return banyan::reducer_door(reducer, [&](banyan::OpenReducer& open) {
    banyan::Failure& failure = open.communicator->membership->failure();
    const banyan::Status status =
        id == BANYAN_ALL_TENSORS ? open.reducer->wait_all() : open.reducer->wait(id);
    return failure.failed() ? failure.status() : status;
  });
}

banyan_result_t banyan_reducer_save(banyan_reducer_t reducer, void* blob, size_t* bytes) {
  return banyan::reducer_door(reducer, [&](banyan::OpenReducer& open) -> banyan::Status {
    if (bytes == nullptr) return {banyan::Code::kInvalidArgument, "bytes is NULL"};
    return open.reducer->save(static_cast<std::byte*>(blob), bytes);
  });
}

banyan_result_t banyan_reducer_load(banyan_reducer_t reducer, const void* const* blobs,
                                    const size_t* bytes, size_t blob_count) {
  return banyan::live_door(
      reducer, [&](GradientReducer& open) { return banyan::load(open, blobs, bytes, blob_count); });
}

banyan_result_t banyan_reducer_stats(banyan_reducer_t reducer, uint64_t id,
                                     banyan_tensor_stats_t* stats) {
  return banyan::reducer_door(
      reducer, [&](banyan::OpenReducer& open) { return banyan::stats(*open.reducer, id, stats); });
}

banyan_result_t banyan_reducer_destroy(banyan_reducer_t reducer) {
  return banyan::door([&] { return banyan::destroy(reducer); });
}
