// The messages of the backend: what they check, and their place in coalescing.
// SPDX-License-Identifier: Apache-2.0

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
  const at::Tensor memory = dense(tensors[0]);
  DeviceOrder(tensors).settle(ended_);
  auto work = c10::make_intrusive<Work>(getRank(), OpType::SEND, "banyan:send", tensors, tensors,
                                        sequence_);
  messages_->send(memory, peer, tag, work, static_cast<double>(timeout_ms_) / 1000);
  return noted(std::move(work));
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recv(Tensors& tensors, int peer, int tag) {
  check_usable("recv");
  check_message("recv", tensors, tag);
  check_rank("recv", peer);
  TORCH_CHECK(peer != getRank(), "banyan recv: rank ", peer, " is this one; valid: another");
  DeviceOrder(tensors).settle(ended_);
  auto work = c10::make_intrusive<Work>(getRank(), OpType::RECV, "banyan:recv", tensors, tensors,
                                        sequence_);
  messages_->recv(tensors[0], peer, tag, work, static_cast<double>(timeout_ms_) / 1000);
  return noted(std::move(work));
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recvAnysource(Tensors& tensors, int tag) {
  check_usable("recv");
  check_message("recv", tensors, tag);
  TORCH_CHECK(getSize() > 1, "banyan recv: this rank is alone; valid: a group of several");
  DeviceOrder(tensors).settle(ended_);
  auto work = c10::make_intrusive<Work>(getRank(), OpType::RECVANYSOURCE, "banyan:recv_any_source",
                                        tensors, tensors, sequence_);
  messages_->recv(tensors[0], Messages::kAny, tag, work, static_cast<double>(timeout_ms_) / 1000);
  return noted(std::move(work));
}

}  // namespace banyan::process_group
