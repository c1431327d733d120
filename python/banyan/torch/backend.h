// The backend "banyan" of torch.distributed, over the C interface.
//
// Collectives have one communicator and one thread, which runs them in the order of the calls;
// where it is idle, a call that waits runs in its own thread. Messages have a communicator of their
// own.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "python/banyan/torch/comm.h"
#include "python/banyan/torch/device.h"
#include "python/banyan/torch/fifo.h"
#include "python/banyan/torch/messages.h"
#include "python/banyan/torch/work.h"

namespace banyan::process_group {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// What a running operation calls.
struct Calls {
  Comm& comm;
  const DeviceTurn& turn;
  const std::atomic<bool>& ended;
  double timeout_s;  // 0: the communicator's
  const char* what;
  int rank, size;
  // On tensors of a GPU they take their turn in the current stream, as everything else there.
  void run(std::vector<banyan_call_t> calls) const;
  void run(const banyan_call_t& call) const { run(std::vector<banyan_call_t>{call}); }
  // Returns when the result is there, for what the host looks at.
  void finish(banyan_call_t call) const;
};

class ProcessGroupBanyan final : public c10d::Backend {
 public:
  ProcessGroupBanyan(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                     std::chrono::milliseconds timeout, const Settings& settings);
  ~ProcessGroupBanyan() override;

  const std::string getBackendName() const override { return "banyan"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  bool supportsShrinking() const override { return true; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  // Groups of some of these ranks, with these settings: all that are in the new one call it.
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& options) override;
  // With flag 1 this group ends, whatever it is doing: it has lost the ranks that are left out.
  BackendPtr shrink(const std::vector<int64_t>& left_out, int flags,
                    const c10::intrusive_ptr<Options>& options) override;

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // Rank 0 waits for the others, and tells all of them who did not come: the first, or all.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) override;

 private:
  struct Op {
    c10d::OpType type;
    const char* what;
    const char* title;
    std::chrono::milliseconds timeout;
    bool async;
    size_t lists = 1;  // how many the outputs are, each as long as the others
  };
  using Body = std::function<void(const Calls&)>;
  WorkPtr submit(const Op& op, const Tensors& inputs, Tensors outputs, Body body);
  // Ends together with the other ranks, where they come in time.
  void leave();
  // Ends at once, whoever waits where.
  void end();
  void check_usable(const char* what) const;
  void check_rank(const char* what, int64_t rank) const;
  void check_root(const char* what, int64_t rank) const;
  WorkPtr noted(WorkRef work);
  double timeout_of(std::chrono::milliseconds asked) const;
  std::chrono::milliseconds chosen(std::chrono::milliseconds asked) const;
  BackendPtr group_of(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                      const c10::intrusive_ptr<Options>& options);
  std::vector<int> find_missing(int tag, std::chrono::milliseconds timeout, bool all);
  WorkRef receive(c10d::OpType type, const char* title, const Tensors& tensors, int peer, int tag);
  WorkRef message(bool sends, const at::Tensor& tensor, int peer, int tag,
                  std::chrono::milliseconds timeout);

  const pid_t process_;  // children of fork() have no part in this
  const c10::intrusive_ptr<c10d::Store> store_;
  const Settings settings_;
  std::map<std::vector<int>, int> parts_;  // how many groups of these ranks there were
  int barriers_ = 0;
  std::atomic<int64_t> timeout_ms_;
  const int64_t first_timeout_ms_;  // the one that the communicators were made with
  std::unique_ptr<Comm> comm_;
  std::unique_ptr<Messages> messages_;  // none where this rank is alone
  DeviceStreams streams_;
  std::unique_ptr<Fifo> fifo_ = std::make_unique<Fifo>();
  std::atomic<uint64_t> sequence_ = 0;
  const std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex coalescing_mutex_;
  bool coalescing_ = false;
  std::vector<WorkRef> coalesced_;
};

}  // namespace banyan::process_group
