// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace banyan::process_group {
namespace {

// By way of torch's table of devices, so that one build serves torch with CUDA and without.
c10::impl::VirtualGuardImpl guard_of(const c10::Stream& stream) {
  return c10::impl::VirtualGuardImpl(stream.device_type());
}

}  // namespace

DeviceOrder::DeviceOrder(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty() || tensors[0].is_cpu()) return;
  const c10::Device device = tensors[0].device();
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void DeviceOrder::enter() const {
  if (!stream_) return;
  const auto guard = guard_of(*stream_);
  guard.setDevice(stream_->device());
  (void)guard.exchangeStream(*stream_);
}

void DeviceOrder::settle() const {
  if (stream_) guard_of(*stream_).synchronizeStream(*stream_);
}

}  // namespace banyan::process_group
