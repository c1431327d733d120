// By way of torch's table of devices, so that one build serves torch with CUDA and without.
// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>

namespace banyan::process_group {
namespace {

using c10::impl::VirtualGuardImpl;
using std::chrono::microseconds;

// torch's waits for streams and events keep a core busy, and end with the GPU only.
template <typename Reached>
bool wait_until(const Reached& reached, const std::atomic<bool>& ended,
                WaitClock::time_point until) {
  constexpr int kEagerLooks = 50;
  constexpr microseconds kLongestNap{100};
  microseconds nap{10};
  for (int looks = 0; !reached(); ++looks) {
    TORCH_CHECK(!ended, "banyan: the group has been destroyed or aborted");
    if (WaitClock::now() >= until) return false;
    if (looks < kEagerLooks) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
  return true;
}

}  // namespace

DeviceMark DeviceMark::here(c10::Device device) {
  DeviceMark mark;
  mark.event_ = std::make_shared<c10::Event>(device.type());
  mark.event_->record(VirtualGuardImpl(device.type()).getStream(device));
  return mark;
}

bool DeviceMark::wait(const std::atomic<bool>& ended, WaitClock::time_point until) const {
  return wait_until([this] { return is_reached(); }, ended, until);
}

void DeviceMark::block_current_stream() const {
  if (event_) event_->block(VirtualGuardImpl(device().type()).getStream(device()));
}

std::optional<c10::Device> device_of(const char* what, const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& outputs) {
  if (inputs.empty() && outputs.empty()) return std::nullopt;
  const c10::Device device = (inputs.empty() ? outputs : inputs)[0].device();
  for (const auto* tensors : {&inputs, &outputs})
    for (const at::Tensor& tensor : *tensors)
      TORCH_CHECK(tensor.device() == device, "banyan ", what, ": tensors are on ", device, " and ",
                  tensor.device(), "; valid: one device in a call");
  if (device.is_cpu()) return std::nullopt;
  const VirtualGuardImpl guard(device.type());
  TORCH_CHECK(!guard.isStreamCapturing(guard.getStream(device)), "banyan ", what,
              ": the stream is being captured into a graph, and calls cannot be: end the capture "
              "first");
  return device;
}

c10::Stream DeviceStreams::of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(device.index());
  if (found != streams_.end()) return found->second;
  const VirtualGuardImpl guard(device.type());
  return streams_.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

DeviceTurn::DeviceTurn(std::optional<c10::Device> device, DeviceStreams& streams) {
  if (device) own_.emplace(streams.of(*device));
}

void* DeviceTurn::native_stream() const {
  const c10::Stream stream = own_->current_stream();
  return VirtualGuardImpl(stream.device_type()).getStreamNativeHandle(stream);
}

void DeviceTurn::uses(const std::vector<at::Tensor>& tensors) const {
  if (!own_) return;
  const c10::Stream stream = own_->current_stream();
  const VirtualGuardImpl guard(stream.device_type());
  for (const at::Tensor& tensor : tensors)
    if (tensor.layout() == at::kStrided && tensor.numel() > 0)
      guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void DeviceTurn::settle(const std::atomic<bool>& ended) const {
  if (own_)
    (void)wait_until([this] { return own_->current_stream().query(); }, ended,
                     WaitClock::time_point::max());
}

}  // namespace banyan::process_group
