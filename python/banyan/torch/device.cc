// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace banyan::process_group {
namespace {

using std::chrono::microseconds;

// torch's waits for streams and events keep a core busy, and end with the GPU only.
template <typename Reached>
void wait_until(const Reached& reached, const std::atomic<bool>& ended) {
  constexpr int kEagerLooks = 50;
  constexpr microseconds kLongestNap{100};
  microseconds nap{10};
  for (int looks = 0; !reached(); ++looks) {
    TORCH_CHECK(!ended, "banyan: the group has been destroyed or aborted");
    if (looks < kEagerLooks) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
}

}  // namespace

// By way of torch's table of devices, so that one build serves torch with CUDA and without.
DeviceOrder::DeviceOrder(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty() || tensors[0].is_cpu()) return;
  const c10::Device device = tensors[0].device();
  event_ = std::make_shared<c10::Event>(device.type());
  event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

void DeviceOrder::settle(const std::atomic<bool>& ended) const {
  if (event_) wait_until([this] { return event_->query(); }, ended);
}

c10::Stream DeviceStreams::of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(device.index());
  if (found != streams_.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams_.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

DeviceTurn::DeviceTurn(const DeviceOrder& order, DeviceStreams& streams,
                       const std::atomic<bool>& ended)
    : ended_(ended) {
  const c10::Event* event = order.event();
  if (event == nullptr) return;
  own_.emplace(streams.of(event->device()));
  event->block(own_->current_stream());
}

void DeviceTurn::settle() const {
  if (own_) wait_until([this] { return own_->current_stream().query(); }, ended_);
}

}  // namespace banyan::process_group
