// The order of an operation among what the caller has enqueued on a GPU.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace banyan::process_group {

// Marks the place of an operation in the caller's current stream, where it is issued. For tensors
// of the host it does nothing.
class DeviceOrder {
 public:
  explicit DeviceOrder(const std::vector<at::Tensor>& tensors);
  // Null: the host has the tensors.
  const c10::Event* event() const { return event_.get(); }
  // Returns when the stream has got there; it may be enqueued more meanwhile. No core is busy with
  // that. Raises where the group ends before.
  void settle(const std::atomic<bool>& ended) const;

 private:
  std::shared_ptr<c10::Event> event_;
};

// One stream of each device, for the copies that operations make of tensors. Thread-safe.
class DeviceStreams {
 public:
  c10::Stream of(c10::Device device);

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> streams_;
};

// While an operation runs: the backend's stream is the thread's, behind the place of the operation.
class DeviceTurn {
 public:
  DeviceTurn(const DeviceOrder& order, DeviceStreams& streams, const std::atomic<bool>& ended);
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  // Returns when all that this stream has is done, as DeviceOrder::settle().
  void settle() const;

 private:
  std::optional<c10::StreamGuard> own_;
  const std::atomic<bool>& ended_;
};

}  // namespace banyan::process_group
