// The steps of a GPU's work that are with windows: what ranks say of them, what kernels and copies
// do there, and what NCCL does in their place.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "compression/codecs.h"
#include "src/cuda/copy_work.h"
#include "src/cuda/device_memory.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

using Handle = CudaFunctions::Handle;

// By which the windows of a call are told apart: its place among those that run.
uint64_t call_of(uint64_t cookie) {
  return cookie >> 32;
}

bool is_there(const Slice& slice, Space space) {
  return slice.size != 0 && slice.space == space;
}

// It brings what this rank gives to its window.
bool is_given(const Step& step) {
  return is_there(step.dst, Space::kWindow) && step.op != Op::kFold;
}

// Counts the values of a message of so many bytes, in whole superblocks: the values behind
// the last one are zeros there, and change nothing.
uint64_t values_in(CodecId codec, const Coding& coding, DataType type, uint64_t bytes) {
  const Codec& which = codecs()[codec - size_t{1}];
  return bytes / which.capacity(coding, type, which.unit) * which.unit;
}

// Behind a rank's offer there may be how many bytes it gives each, and takes from each.
void write_lists(const Delegation& delegation, std::byte* to) {
  for (const std::vector<Slice>* slices : {&delegation.to, &delegation.from})
    for (const Slice& slice : *slices) {
      std::memcpy(to, &slice.size, sizeof slice.size);
      to += sizeof slice.size;
    }
}

// Each gives as much as is taken from it, and it is worth while; all ranks see the same of it.
bool lists_fit(std::span<const std::byte> offers, size_t ranks) {
  const size_t stride = offers.size() / ranks;
  if (stride < listed_offer_bytes(ranks)) return true;  // there are none
  const auto listed = [&](size_t rank, size_t entry) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, &offers[rank * stride + kOfferBytes + entry * sizeof bytes], sizeof bytes);
    return bytes;
  };
  uint64_t longest = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    uint64_t given = 0, taken = 0;
    for (size_t other = 0; other < ranks; ++other) {
      if (listed(rank, other) != listed(other, ranks + rank)) return false;
      given += listed(rank, other);
      taken += listed(rank, ranks + other);
    }
    longest = std::max({longest, given, taken});
  }
  return longest >= kPeersLeast;
}

}  // namespace

void CopyWork::use_windows(int rank, WindowRanks who, const std::string& nccl) {
  window_ranks_ = std::move(who);
  windows_ = std::make_unique<Windows>(cuda_, index_of(rank), window_ranks_.in_process, nccl);
}

int CopyWork::index_of(int rank) const {
  const std::vector<int>& ranks = window_ranks_.ranks;
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

LocalWork::End CopyWork::run_withdraw(uint64_t cookie) {
  windows_->withdraw(call_of(cookie));
  return {cookie, Outcome::kDone};
}

// Where the buffers of the call are decides whether it may go by windows.
LocalWork::End CopyWork::run_offer(const LocalStep& local, uint64_t cookie) {
  WindowOffer offer;
  if (windows_ != nullptr) {
    OpenGpu* gpu = nullptr;
    bool all_there = true;
    for (const Slice& buffer : {local.step.src, local.step.src2}) {
      if (buffer.size == 0) continue;
      const std::byte* address = local.spaces.at(buffer);
      // Pinned memory of the host has an ordinal, too.
      const Result<OpenGpu*> found = gpu_of(address);
      all_there = all_there && found.ok() && is_in_device_memory(address) &&
                  (gpu == nullptr || gpu == *found);
      if (found.ok()) gpu = *found;
    }
    // Between hosts sums go by memory of the host, which the GPU writes.
    const bool reaches_host = all_is_pinned_ || window_ranks_.are_all;
    offer = windows_->offer(call_of(cookie), all_there && reaches_host ? gpu : nullptr,
                            local.step.delegates);
    offer.scalar = local.arithmetic.scalar;
  }
  std::byte* const dst = local.spaces.at(local.step.dst);
  std::memcpy(dst, &offer, sizeof offer);
  if (local.step.dst.size > sizeof offer)
    write_lists(local.delegations[local.step.coding], dst + sizeof offer);
  return {cookie, Outcome::kDone};
}

LocalWork::End CopyWork::run_decide(const LocalStep& local, uint64_t cookie) {
  End end{cookie, Outcome::kDone, 0, Branch::kOtherwise};
  const std::span offers(local.spaces.at(local.step.src), local.step.src.size);
  if (windows_ != nullptr)
    end.branch = windows_->decide(call_of(cookie), offers, local.step.delegates,
                                  lists_fit(offers, window_ranks_.ranks.size()));
  return end;
}

std::byte* CopyWork::address_in(const LocalStep& local, const Slice& slice, int peer,
                                uint64_t call) const {
  if (!is_there(slice, Space::kWindow)) return local.spaces.at(slice);
  std::byte* window = windows_->of(call, peer < 0 ? windows_->rank() : index_of(peer));
  return window == nullptr ? nullptr : window + slice.offset;
}

// All that the step reads and writes is in the memory of GPUs.
Status CopyWork::enqueue_in_windows(const LocalStep& local, const WindowOperands& at,
                                    Handle stream) const {
  const Step& step = local.step;
  const KernelsOfGpu& kernels = *windows_->gpu()->kernels();
  const uint64_t read = step.src.size / size_of(step.type);
  const uint64_t written = step.dst.size / size_of(step.type);
  const std::span sources(at.sources.data(), static_cast<size_t>(windows_->ranks()));
  const bool coded = step.codec != kNoCodec;
  const bool scales = local.arithmetic.op == ReduceOp::kPreMulSum;
  const Coding coding = coding_of(local);
  switch (step.op) {
    case Op::kEncode:
      if (!coded)
        return kernels.sums.encode(step.type, at.dst, at.src, written, local.arithmetic.divisor,
                                   stream);
      return kernels.encode(step.codec, coding, step.type, at.src, read, at.dst, nullptr, stream);
    case Op::kDecode:
      if (!coded)
        return kernels.sums.decode(step.type, at.dst, at.src, read,
                                   scales ? local.arithmetic.scalar.data() : nullptr, stream);
      return kernels.decode(step.codec, step.type, at.src, written, at.dst, stream);
    case Op::kFold:
      if (!coded) {
        const bool partial = step.dst.space == Space::kScratch;  // of what is scaled already
        if (scales && !partial)
          return kernels.folds.fold_scaled(step.type, at.dst, sources, at.scalars, written, stream);
        return kernels.folds.fold(step.type, scales ? ReduceOp::kSum : local.arithmetic.op, at.dst,
                                  sources, written, partial ? 1 : local.arithmetic.divisor, stream);
      }
      return kernels.fold(step.codec, coding, sources,
                          values_in(step.codec, coding, step.type, step.src.size), at.dst, stream);
    default:
      return cuda_status(
          cuda_, cuda_.copy(cuda_address(at.dst), cuda_address(at.src), step.dst.size, stream),
          "cuMemcpyAsync");
  }
}

// What goes to this rank's window has another stream than what is read of windows.
LocalWork::End CopyWork::run_in_windows(const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const uint64_t call = call_of(cookie);
  if (step.op == Op::kDelegate) return run_delegate(local, cookie);
  WindowOperands at{.dst = address_in(local, step.dst, -1, call),
                    .src = address_in(local, step.src, step.peer, call),
                    .scalars = windows_->scalars(call)};
  bool all_there = at.dst != nullptr && at.src != nullptr;
  for (size_t index = 0; step.op == Op::kFold && index < window_ranks_.ranks.size(); ++index) {
    const bool in_own = step.src2.size != 0;  // there are all contributions
    const std::byte* window =
        in_own ? address_in(local, step.src2.sub(index * step.src.size, step.src.size), -1, call)
               : address_in(local, step.src, window_ranks_.ranks[index], call);
    at.sources[index] = window;
    all_there = all_there && window != nullptr;
  }
  if (!all_there) return failed(cookie, {Code::kCuda, "the window of a rank is gone"});
  OpenGpu& gpu = *windows_->gpu();
  const CurrentContext current = gpu.make_current();
  CopyLine& line = is_given(step) ? gpu.out() : gpu.in();
  const Status begun =
      line.begin(cookie, 0, [&](Handle stream) { return enqueue_in_windows(local, at, stream); });
  return begun.ok() ? End{cookie, Outcome::kPending} : failed(cookie, begun);
}

// What a rank gives itself is a copy. Whether it is to be waited for: where there is nothing else,
// and no copy, there is nothing to do.
Result<bool> CopyWork::begin_delegate(const LocalStep& local, uint64_t cookie) {
  const Delegation& delegation = local.delegations[local.step.coding];
  const auto own = static_cast<size_t>(windows_->rank());
  std::vector<NcclTeam::Piece> to, from;
  for (auto [slices, pieces] : {std::pair(&delegation.to, &to), std::pair(&delegation.from, &from)})
    for (const Slice& slice : *slices) {
      std::byte* const at = address_in(local, slice, -1, call_of(cookie));
      if (slice.size != 0 && at == nullptr)
        return Status(Code::kCuda, "this rank's window is gone");
      pieces->push_back({at, slice.size});
    }
  const Result<CopyLine*> line = windows_->gpu()->delegates();
  BANYAN_TRY(line.status());
  const auto exchange = [&](Handle stream) -> Status {
    if (from[own].bytes != 0 && from[own].at != to[own].at)
      BANYAN_TRY(cuda_status(
          cuda_,
          cuda_.copy(cuda_address(from[own].at), cuda_address(to[own].at), from[own].bytes, stream),
          "cuMemcpyAsync"));
    Status begun = windows_->nccl().begin(to, from, stream);
    if (!begun.ok()) windows_->nccl().leave();  // what of it runs may wait for others
    return begun;
  };
  BANYAN_TRY((*line)->enqueue(exchange));
  return note_delegate(cookie);
}

Result<bool> CopyWork::note_delegate(uint64_t cookie) {
  const Result<bool> enqueued = windows_->nccl().is_enqueued();
  BANYAN_TRY(enqueued.status());
  if (!*enqueued) return false;
  const Result<CopyLine*> line = windows_->gpu()->delegates();
  BANYAN_TRY(line.status());
  BANYAN_TRY((*line)->begin(cookie, 0, [](Handle) { return Status(); }));
  return true;
}

LocalWork::End CopyWork::run_delegate(const LocalStep& local, uint64_t cookie) {
  const CurrentContext current = windows_->gpu()->make_current();
  const Result<bool> noted = begin_delegate(local, cookie);
  if (!noted.ok()) return failed(cookie, noted.status());
  if (!*noted) delegate_ = cookie;
  return {cookie, Outcome::kPending};
}

}  // namespace banyan
