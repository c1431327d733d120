// Copies between the memory of GPUs and that of the host, codecs on GPUs, and what goes by windows,
// as local work of the engine (local_work.h): the steps that stage() and with_peers() have made for
// memory that the host cannot touch.
//
// Each GPU has two streams of its own here, one for either direction, since it has a copy engine
// for either. They are ordered by nothing of the caller's. Source: CUDA Driver API, "Stream
// Management" and "Stream Ordered Memory Operations".
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"
#include "src/cuda/driver_calls.h"
#include "src/cuda/open_gpu.h"
#include "src/cuda/windows.h"
#include "src/engine/local_work.h"
#include "src/engine/scratch.h"

namespace banyan {

class CopyWork final : public LocalWork, public Pinning {
 public:
  // kUnsupported, kSystem: check_driver(), or no descriptor is to be had.
  static Result<std::unique_ptr<CopyWork>> create(const CudaFunctions& cuda);
  ~CopyWork() override;

  // Prepares the GPU in whose memory that address is, so that run() needs nothing more. kCuda: the
  // driver refuses.
  Status open(const void* address);
  // That GPU, opened. It is this one's.
  Result<OpenGpu*> gpu_of(const void* address);
  // Who reads each other's memory: the ranks of this host, ascending, `rank` among them.
  struct WindowRanks {
    std::vector<int> ranks{};
    std::vector<bool> in_process{};  // of each: it is a thread of this process
    bool are_all = true;             // there is no other host
  };
  // From now on calls may go by windows. Before the first call.
  // `nccl`: where that library is; empty: where it usually is.
  void use_windows(int rank, WindowRanks who, const std::string& nccl = {});
  // No call comes any more.
  void leave_windows() {
    if (windows_ != nullptr) windows_->leave_others();
  }
  // As Windows says it.
  std::string take_news_of_windows() {
    return windows_ == nullptr ? std::string() : windows_->take_news();
  }
  uint64_t calls_by_windows() const { return windows_ == nullptr ? 0 : windows_->calls(); }
  // By which codecs the GPU in whose memory these are encodes and decodes itself, as in
  // Staging::codecs; none where it is not one GPU. Requires open() of each.
  // `accumulator`: the type of the call's sums.
  uint32_t codecs_at(std::span<const void* const> addresses, DataType accumulator);

  // After codecs_at(): why a GPU has no kernels, said once of each; empty: nothing is to be said.
  std::string take_why_no_kernels();

  End run(const LocalStep& step, uint64_t cookie) override;
  size_t poll(std::span<End> ends) override;
  bool arm() override;
  void disarm() override;
  int descriptor() const override { return bell_.get(); }
  void abandon() override;
  std::string why_failed() const override { return why_; }

  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  // One side of each lies in a GPU, the other one there or on the host. Returns when all are done.
  Status copy_now(std::span<const Copy> copies);

  // Transports move messages in the memory of these GPUs: whether what they write there is seen by
  // who reads it later, in each that is open. settle_messages() sees to that, once it is there.
  bool sees_messages() const { return sees_messages_; }
  Status settle_messages();
  // Makes current what they need.
  void enter_for_messages(std::optional<CurrentContext>& current) const;

  // Memory of the GPU where that address is, and back again.
  Result<std::byte*> take_beside(const void* address, size_t bytes);
  void give_back(const std::byte* memory);

  // Memory that is not pinned does, too, but slowly, and not for codecs.
  void pin(std::byte* memory, size_t bytes) override;
  void unpin(std::byte* memory) override;

 private:
  explicit CopyWork(const CudaFunctions& cuda, Descriptor bell);
  static const std::byte* place_of(const LocalStep& local);
  End run_kernel(const LocalStep& local, uint64_t cookie);
  static Status begin_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie);
  End read_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie);
  End run_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie);
  End run_onebit(OpenGpu& gpu, const LocalStep& local, uint64_t cookie);
  End run_copy(const LocalStep& step, uint64_t cookie);
  End run_offer(const LocalStep& local, uint64_t cookie);
  End run_decide(const LocalStep& local, uint64_t cookie);
  End run_withdraw(uint64_t cookie);
  // Where the operands of a step with windows are.
  struct WindowOperands {
    std::byte* dst = nullptr;
    const std::byte* src = nullptr;
    std::array<const std::byte*, kMostWindows> sources{};  // of kFold, by rank
    std::span<const CudaScalar> scalars{};
  };
  End run_in_windows(const LocalStep& local, uint64_t cookie);
  End run_delegate(const LocalStep& local, uint64_t cookie);
  Result<bool> begin_delegate(const LocalStep& local, uint64_t cookie);
  // What NCCL has enqueued by now is a delegate that ends with its stream.
  Result<bool> note_delegate(uint64_t cookie);
  Status enqueue_in_windows(const LocalStep& local, const WindowOperands& at,
                            CudaFunctions::Handle stream) const;
  // Also in a window: that of rank `peer`, or this rank's where it is -1; null: it is gone.
  std::byte* address_in(const LocalStep& local, const Slice& slice, int peer, uint64_t call) const;
  int index_of(int rank) const;  // among those with windows
  static Status begin_own(OpenGpu& gpu, const Copy& copy);
  End failed(uint64_t cookie, const Status& why);

  const CudaFunctions cuda_;
  Descriptor bell_;
  std::vector<std::unique_ptr<OpenGpu>> gpus_;  // by ordinal; null: not opened
  bool sees_messages_ = true;
  std::unique_ptr<Windows> windows_;  // null: calls do not go by them
  WindowRanks window_ranks_;
  std::optional<uint64_t> delegate_;  // that NCCL has not enqueued yet: its cookie
  bool all_is_pinned_ = true;
  std::string why_;  // the first failure
};

}  // namespace banyan
