// The messages of the backend: what they check, and their place in coalescing.
// SPDX-License-Identifier: Apache-2.0

#include <optional>
#include <utility>

#include "python/banyan/torch/backend.h"
#include "python/banyan/torch/tensors.h"

namespace banyan::process_group {
namespace {

using c10d::OpType;

// Tags from 0 on are the caller's; torch has no others.
void check_message(const char* what, const Tensors& tensors, int tag) {
  TORCH_CHECK(tensors.size() == 1, "banyan ", what, ": there are ", tensors.size(),
              " tensors; valid: one");
  TORCH_CHECK(tag >= 0, "banyan ", what, ": the tag is ", tag, "; valid: at least 0");
  check_tensors(what, tensors);
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::send(Tensors& tensors, int peer, int tag) {
  check_usable("send");
  check_message("send", tensors, tag);
  check_rank("send", peer);
  TORCH_CHECK(peer != getRank(), "banyan send: rank ", peer, " is this one; valid: another");
  const std::optional<c10::Device> device = device_of("send", tensors, {});
  const at::Tensor memory = dense(tensors[0]);
  auto work = c10::make_intrusive<Work>(getRank(), OpType::SEND, "banyan:send", tensors, tensors,
                                        sequence_);
  messages_->send(memory, peer, tag, work, static_cast<double>(timeout_ms_) / 1000,
                  device ? DeviceMark::here(*device) : DeviceMark());
  return noted(std::move(work));
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recv(Tensors& tensors, int peer, int tag) {
  check_usable("recv");
  check_message("recv", tensors, tag);
  check_rank("recv", peer);
  TORCH_CHECK(peer != getRank(), "banyan recv: rank ", peer, " is this one; valid: another");
  return noted(receive(OpType::RECV, "banyan:recv", tensors, peer, tag));
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recvAnysource(Tensors& tensors, int tag) {
  check_usable("recv");
  check_message("recv", tensors, tag);
  TORCH_CHECK(getSize() > 1, "banyan recv: this rank is alone; valid: a group of several");
  return noted(
      receive(OpType::RECVANYSOURCE, "banyan:recv_any_source", tensors, Messages::kAny, tag));
}

WorkRef ProcessGroupBanyan::receive(OpType type, const char* title, const Tensors& tensors,
                                    int peer, int tag) {
  const std::optional<c10::Device> device = device_of("recv", tensors, {});
  auto work = c10::make_intrusive<Work>(getRank(), type, title, tensors, tensors, sequence_);
  messages_->recv(tensors[0], peer, tag, work, static_cast<double>(timeout_ms_) / 1000,
                  device ? DeviceMark::here(*device) : DeviceMark());
  return work;
}

}  // namespace banyan::process_group
