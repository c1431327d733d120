// The order of an operation among what the caller has enqueued on a GPU.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace banyan::process_group {

using WaitClock = std::chrono::steady_clock;

// A place in a stream. Copies are the same place.
class DeviceMark {
 public:
  // None, which is reached: what the host has.
  DeviceMark() = default;
  // Where the current stream of the device is now.
  static DeviceMark here(c10::Device device);
  bool is_reached() const { return event_ == nullptr || event_->query(); }
  // Returns when the stream has got there, false where it has not by then. No core is busy with
  // that. Raises where the group ends before.
  bool wait(const std::atomic<bool>& ended,
            WaitClock::time_point until = WaitClock::time_point::max()) const;
  // What is enqueued on the current stream of the device from now on comes after the mark.
  void block_current_stream() const;
  explicit operator bool() const { return event_ != nullptr; }
  c10::Device device() const { return event_->device(); }

 private:
  std::shared_ptr<c10::Event> event_;
};

// The device of the tensors, unless it is the host. Raises where there are several, or where its
// current stream is being captured, which goes on being so.
std::optional<c10::Device> device_of(const char* what, const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& outputs);

// One stream of each device, for what operations enqueue. Thread-safe.
class DeviceStreams {
 public:
  c10::Stream of(c10::Device device);

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> streams_;
};

// While it is there the backend's stream is the thread's. Nothing, for tensors of the host.
class DeviceTurn {
 public:
  DeviceTurn(std::optional<c10::Device> device, DeviceStreams& streams);
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  bool on_device() const { return own_.has_value(); }
  // A cudaStream_t.
  void* native_stream() const;
  // Memory of these is not given to others before this stream is through with it.
  void uses(const std::vector<at::Tensor>& tensors) const;
  // Returns when all that this stream has is done, as DeviceMark::wait().
  void settle(const std::atomic<bool>& ended) const;

 private:
  std::optional<c10::StreamGuard> own_;
};

}  // namespace banyan::process_group
