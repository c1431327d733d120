// What a worker does for calls on the memory of GPUs.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "src/base/copy.h"
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
    const std::vector<int> nowhere(static_cast<size_t>(around_.links.size), -1);
    engine_.serve(MemoryKind::kDevice, std::move(*copies), nowhere);
    staging_memory_.emplace(*copies_);
  }
  if (problem.staging.input) BANYAN_TRY(copies_->open(call.send));
  return problem.staging.output ? copies_->open(output_of(problem, call)) : Status();
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
std::shared_ptr<Plan> Worker::plan_with_codecs(const Call& call) {
  Problem problem = call.problem;
  if (gpus_have_codecs_ && open_devices(problem, call).ok()) {
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
