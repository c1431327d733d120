// The order of an operation among what the caller has enqueued on a GPU.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include <optional>
#include <vector>

namespace banyan::process_group {

// It is made where the operation is issued and notes the current stream there. Operations wait for
// that stream by the host, and leave it idle. For tensors of the host it does nothing.
class DeviceOrder {
 public:
  explicit DeviceOrder(const std::vector<at::Tensor>& tensors);
  // Makes the stream this thread's current one, for copies of tensors.
  void enter() const;
  // Returns when all that the stream had has ended.
  void settle() const;

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace banyan::process_group
