// What a worker does for calls on the memory of GPUs.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "algorithms/staging.h"
#include "src/base/copy.h"
#include "src/communicator/gpu_messages.h"
#include "src/communicator/worker.h"
#include "src/cuda/device_memory.h"

namespace banyan {

bool Worker::may_have_windows() const {
  const std::vector<LinkPeer>& peers = around_.links.peers;
  return around_.settings.all_know_gpus &&
         std::all_of(peers.begin(), peers.end(),
                     [](const LinkPeer& peer) { return peer.same_host; });
}

bool Worker::may_have_windows_inside() const {
  const Hierarchy& levels = around_.hierarchy;
  return around_.settings.all_know_gpus && levels.depth() > 0 && levels.name(0) == kHostLevel;
}

CopyWork::WindowRanks Worker::window_ranks() const {
  const std::vector<LinkPeer>& peers = around_.links.peers;
  CopyWork::WindowRanks who{.are_all = may_have_windows()};
  for (int other = 0; other < around_.links.size; ++other) {
    const Hierarchy& levels = around_.hierarchy;
    if (!who.are_all && levels.part_of(0, other) != levels.part_of(0, rank())) continue;
    who.ranks.push_back(other);
    who.in_process.push_back(peers[static_cast<size_t>(other)].same_process);
  }
  return who;
}

// The first call on such memory brings what works on it.
Status Worker::open_devices(const Problem& problem, const Call& call) {
  if (copies_ == nullptr) {
    const CudaFunctions* cuda = cuda_of_process();
    if (cuda == nullptr) return {Code::kUnsupported, "this process has no CUDA driver"};
    Result<std::unique_ptr<CopyWork>> copies = CopyWork::create(*cuda);
    BANYAN_TRY(copies.status());
    copies_ = copies->get();
    if (may_have_windows() || may_have_windows_inside())
      copies_->use_windows(rank(), window_ranks(), around_.settings.environment.nccl_library);
    engine_.serve(MemoryKind::kDevice, std::move(*copies), wrap_for_gpus());
    staging_memory_.emplace(*copies_);
  }
  if (problem.staging.input) BANYAN_TRY(copies_->open(call.send));
  if (problem.staging.output) BANYAN_TRY(copies_->open(output_of(problem, call)));
  const bool direct = copies_->sees_messages();
  if (std::exchange(has_direct_messages_, direct) != direct) use_direct_messages();
  return {};
}

// This is for transports that move messages in the memory of GPUs. The result has the routes there
// by peer.
std::vector<int> Worker::wrap_for_gpus() {
  const auto carries = [](const auto& transport) {
    return transport->carries_from(MemoryKind::kDevice).has_value();
  };
  std::vector<int> routes(engine_.routes().begin(), engine_.routes().end());
  const auto transports = engine_.transports();
  for (int& route : routes)
    if (route >= 0 && !carries(transports[static_cast<size_t>(route)])) route = -1;
  for (size_t index = 0; index < transports.size(); ++index)
    if (carries(transports[index]))
      engine_.wrap(index, [this](std::unique_ptr<Transport> inner) {
        return with_gpus(std::move(inner), *copies_);
      });
  return routes;
}

// What a GPU would not see is not brought there by others: one that is opened later ends it for
// all.
void Worker::use_direct_messages() {
  if (!has_direct_messages_) return plans_.use_direct_messages({});
  std::vector<uint64_t> direct_from(static_cast<size_t>(around_.links.size), kNeverDirect);
  uint64_t least = kNeverDirect;
  for (int peer = 0; peer < around_.links.size; ++peer) {
    if (peer == rank()) continue;
    const auto from = engine_.transport_to(peer).carries_from(MemoryKind::kDevice);
    if (!from) continue;
    direct_from[static_cast<size_t>(peer)] = *from;
    least = std::min(least, *from);
  }
  if (least == kNeverDirect) return;
  plans_.use_direct_messages(std::move(direct_from));
  BANYAN_LOG(around_.settings.log, Subsystem::kPlan, LogLevel::kInfo,
             "messages of {} bytes and more go straight from and to the memory of GPUs between "
             "hosts, where the host adds nothing to them",
             least);
}

void Worker::tell_news_of_windows() const {
  if (const std::string news = copies_->take_news_of_windows(); !news.empty())
    BANYAN_LOG(around_.settings.log, Subsystem::kPlan, LogLevel::kInfo, "{}", news);
}

void Worker::leave_windows() {
  if (copies_ != nullptr) copies_->leave_windows();
}

// What GPUs encode by themselves is not brought to the host. Where they cannot be reached, the call
// will say so.
std::shared_ptr<Plan> Worker::plan_on_devices(const Call& call) {
  Problem problem = call.problem;
  const bool opened = open_devices(problem, call).ok();
  if (opened && gpus_have_codecs_ && !problem.compression.is_exact()) {
    std::vector<const void*> staged;
    if (problem.staging.input) staged.push_back(call.send);
    if (problem.staging.output) staged.push_back(output_of(problem, call));
    problem.staging.codecs = copies_->codecs_at(staged, problem.accumulator());
    if (const std::string why = copies_->take_why_no_kernels(); !why.empty())
      BANYAN_LOG(around_.settings.log, Subsystem::kPlan, LogLevel::kInfo,
                 "the host encodes for a GPU: {}", why);
  }
  return plans_.find_or_build(problem, call.algorithm, call.parameters);
}

Status Worker::copy_own(const Call& send, const Call& receive, size_t bytes) {
  if (!send.problem.staging.any() && !receive.problem.staging.any()) {
    copy_bytes(static_cast<std::byte*>(receive.recv), static_cast<const std::byte*>(send.send),
               bytes);
    return {};
  }
  BANYAN_TRY(open_devices(send.problem, send));
  BANYAN_TRY(open_devices(receive.problem, receive));
  const CopyWork::Copy copy{receive.recv, send.send, bytes};
  return copies_->copy_now({&copy, 1});
}

}  // namespace banyan
