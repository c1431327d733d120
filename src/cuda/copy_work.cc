// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/copy_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "compression/codecs.h"
#include "src/base/bell.h"
#include "src/cuda/device_memory.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE

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

}  // namespace

Result<std::unique_ptr<CopyWork>> CopyWork::create(const CudaFunctions& cuda) {
  BANYAN_TRY(check_driver(cuda));
  Result<Descriptor> bell = make_bell();
  BANYAN_TRY(bell.status());
  return std::unique_ptr<CopyWork>(new CopyWork(cuda, std::move(*bell)));
}

CopyWork::CopyWork(const CudaFunctions& cuda, Descriptor bell)
    : cuda_(cuda), bell_(std::move(bell)) {}

CopyWork::~CopyWork() = default;

void CopyWork::use_windows(int rank, WindowRanks who) {
  window_ranks_ = std::move(who);
  windows_ = std::make_unique<Windows>(cuda_, index_of(rank), window_ranks_.in_process);
}

int CopyWork::index_of(int rank) const {
  const std::vector<int>& ranks = window_ranks_.ranks;
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

Result<OpenGpu*> CopyWork::gpu_of(const void* address) {
  const Result<int> ordinal = ordinal_of(cuda_, address);
  BANYAN_TRY(ordinal.status());
  const auto index = static_cast<size_t>(*ordinal);
  if (index >= gpus_.size()) gpus_.resize(index + 1);
  if (gpus_[index] != nullptr) return gpus_[index].get();
  auto gpu = std::make_unique<OpenGpu>(cuda_);
  BANYAN_TRY(gpu->open(*ordinal));
  gpus_[index] = std::move(gpu);
  return gpus_[index].get();
}

Status CopyWork::open(const void* address) {
  return gpu_of(address).status();
}

LocalWork::End CopyWork::failed(uint64_t cookie, const Status& why) {
  if (why_.empty()) why_ = why.message();
  return {cookie, Outcome::kFailed, 0};
}

std::string CopyWork::take_why_no_kernels() {
  std::string why;
  for (const auto& gpu : gpus_)
    if (gpu != nullptr && why.empty()) why = gpu->take_why_no_kernels();
  return why;
}

uint32_t CopyWork::codecs_at(std::span<const void* const> addresses, DataType accumulator) {
  OpenGpu* all_of = nullptr;
  for (const void* address : addresses) {
    const Result<OpenGpu*> gpu = gpu_of(address);
    if (!gpu.ok() || (all_of != nullptr && *gpu != all_of)) return 0;
    all_of = *gpu;
  }
  if (all_of == nullptr || !all_is_pinned_ || all_of->kernels() == nullptr) return 0;
  uint32_t found = 1;
  for (CodecId codec = 1; codec <= codecs().size(); ++codec)
    found |= is_codec_of_gpus(codec, accumulator) ? 1U << codec : 0;
  return found;
}

// What lies in the memory of a GPU, of the operands of a step by a kernel.
const std::byte* CopyWork::place_of(const LocalStep& local) {
  const Step& step = local.step;
  const bool reads = step.src.space != Space::kScratch;
  return local.spaces.at(reads ? step.src : step.dst);
}

// All other operands lie in working memory, which is pinned: the GPU reaches it there.
LocalWork::End CopyWork::run_kernel(const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const Result<OpenGpu*> gpu = gpu_of(place_of(local));
  if (!gpu.ok()) return failed(cookie, gpu.status());
  const KernelsOfGpu* kernels = (*gpu)->kernels();
  if (kernels == nullptr || !all_is_pinned_)
    return failed(cookie, {Code::kCuda,
                           "a GPU cannot encode: it has no kernels, or the driver "
                           "does not lock the memory of messages"});
  const bool encodes = step.op == Op::kEncode && step.codec != kNoCodec;
  const uint64_t count = (encodes ? step.src : step.dst).size / size_of(step.type);
  const Coding coding = coding_of(local);
  if (has_cuda_sparse(step.codec, coding, step.type)) return run_sparse(**gpu, local, cookie);
  uint64_t bytes = 0;
  if (step.codec != kNoCodec) {
    bytes = codecs()[step.codec - size_t{1}].capacity(coding, step.type, count);
    if (!encodes && local.message_bytes != bytes) return {cookie, Outcome::kCorrupt, 0};
  }
  std::byte* const dst = local.spaces.at(step.dst);
  const std::byte* const src = local.spaces.at(step.src);
  const auto enqueue = [&](Handle stream) -> Status {
    if (step.codec == kNoCodec)
      return kernels->sums.encode(step.type, dst, src, count, local.arithmetic.divisor, stream);
    if (encodes) return kernels->encode(step.codec, coding, step.type, src, count, dst, stream);
    if (step.op == Op::kDecode)
      return kernels->decode(step.codec, step.type, src, count, dst, stream);
    return kernels->decode_add(step.codec, step.type, local.spaces.at(step.src2), count, src, dst,
                               stream);
  };
  const CurrentContext current = (*gpu)->make_current();
  CopyLine& line = encodes ? (*gpu)->out() : (*gpu)->in();
  const Status begun = line.begin(cookie, encodes ? bytes : 0, enqueue);
  return begun.ok() ? End{cookie, Outcome::kPending, 0} : failed(cookie, begun);
}

// How long its messages are, a GPU says when it has written them. Flags travel behind them.
Status CopyWork::begin_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const KernelsOfGpu& kernels = *gpu.kernels();
  const uint64_t count = step.src.size / size_of(step.type);
  Coding coding = coding_of(local);
  std::byte* const dst = local.spaces.at(step.dst);
  const std::byte* const src = local.spaces.at(step.src);
  if (step.op == Op::kSelect)
    return gpu.out().begin_in_room(
        cookie, CudaTopk::room(count), [&](Handle stream, std::byte* room) {
          auto* const selection = reinterpret_cast<Selection*>(dst);
          return kernels.topk.select(coding, src, count, selection, room, stream);
        });
  Selection selection;
  if (step.src2.size != 0) {
    std::memcpy(&selection, local.spaces.at(step.src2), sizeof selection);
    coding.selection = &selection;
  }
  return gpu.out().begin_counted(cookie, CudaSparse::room(count),
                                 [&](Handle stream, std::byte* room, uint64_t* said) {
                                   return kernels.sparse.encode(step.codec, coding, src, count, dst,
                                                                nullptr, room, said, stream);
                                 });
}

LocalWork::End CopyWork::read_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const bool adds = step.op == Op::kDecodeAdd;
  const uint64_t count = step.dst.size / size_of(step.type);
  const Coding coding = coding_of(local);
  std::byte* const dst = local.spaces.at(step.dst);
  const std::byte* const src = local.spaces.at(step.src);
  const std::byte* const slot = adds ? local.spaces.at(step.src2) : src;
  if (local.message_bytes == 0) return {cookie, Outcome::kCorrupt};
  const uint64_t bytes = local.message_bytes - 1;
  const CodecMessage message{slot, bytes, static_cast<uint8_t>(slot[bytes])};
  if (!CudaSparse::is_message(coding, message, count)) return {cookie, Outcome::kCorrupt};
  const Status begun =
      gpu.in().begin_in_room(cookie, CudaSparse::room(count), [&](Handle stream, std::byte* room) {
        const CudaSparse& sparse = gpu.kernels()->sparse;
        return adds ? sparse.decode_add(coding, message, count, src, dst, room, stream)
                    : sparse.decode(coding, message, count, dst, room, stream);
      });
  return begun.ok() ? End{cookie, Outcome::kPending} : failed(cookie, begun);
}

LocalWork::End CopyWork::run_sparse(OpenGpu& gpu, const LocalStep& local, uint64_t cookie) {
  const CurrentContext current = gpu.make_current();
  const Op op = local.step.op;
  if (op != Op::kEncode && op != Op::kSelect) return read_sparse(gpu, local, cookie);
  const Status begun = begin_sparse(gpu, local, cookie);
  return begun.ok() ? End{cookie, Outcome::kPending} : failed(cookie, begun);
}

LocalWork::End CopyWork::run(const LocalStep& step, uint64_t cookie) {
  if (step.step.branch == Branch::kPeers && step.step.op != Op::kWithdraw)
    return run_in_windows(step, cookie);
  switch (step.step.op) {
    case Op::kOffer: return run_offer(step, cookie);
    case Op::kDecide: return run_decide(step, cookie);
    case Op::kWithdraw: windows_->withdraw(call_of(cookie)); return {cookie, Outcome::kDone};
    case Op::kCopy: return run_copy(step, cookie);
    default: return run_kernel(step, cookie);
  }
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
    offer = windows_->offer(call_of(cookie), all_there && reaches_host ? gpu : nullptr);
  }
  std::memcpy(local.spaces.at(local.step.dst), &offer, sizeof offer);
  return {cookie, Outcome::kDone};
}

LocalWork::End CopyWork::run_decide(const LocalStep& local, uint64_t cookie) {
  End end{cookie, Outcome::kDone, 0, Branch::kOtherwise};
  const std::span offers(local.spaces.at(local.step.src), local.step.src.size);
  if (windows_ != nullptr) end.branch = windows_->decide(call_of(cookie), offers);
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
  const Coding coding = coding_of(local);
  switch (step.op) {
    case Op::kEncode:
      if (!coded)
        return kernels.sums.encode(step.type, at.dst, at.src, written, local.arithmetic.divisor,
                                   stream);
      return kernels.encode(step.codec, coding, step.type, at.src, read, at.dst, stream);
    case Op::kDecode:
      if (!coded) return kernels.sums.decode(step.type, at.dst, at.src, read, nullptr, stream);
      return kernels.decode(step.codec, step.type, at.src, written, at.dst, stream);
    case Op::kFold:
      if (!coded) {
        const bool partial = step.dst.space == Space::kScratch;
        return kernels.folds.fold(step.type, local.arithmetic.op, at.dst, sources, written,
                                  partial ? 1 : local.arithmetic.divisor, stream);
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
  WindowOperands at{.dst = address_in(local, step.dst, -1, call),
                    .src = address_in(local, step.src, step.peer, call)};
  bool all_there = at.dst != nullptr && at.src != nullptr;
  for (size_t index = 0; step.op == Op::kFold && index < window_ranks_.ranks.size(); ++index) {
    const std::byte* window = address_in(local, step.src, window_ranks_.ranks[index], call);
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

// The host's side of such a step is working memory.
LocalWork::End CopyWork::run_copy(const LocalStep& step, uint64_t cookie) {
  const Step& copy = step.step;
  const bool out = copy.dst.space == Space::kScratch;
  std::byte* to = step.spaces.at(copy.dst);
  const std::byte* from = step.spaces.at(copy.src);
  const Result<OpenGpu*> gpu = gpu_of(out ? from : to);
  if (!gpu.ok()) return failed(cookie, gpu.status());
  const CurrentContext current = (*gpu)->make_current();
  CopyLine& line = out ? (*gpu)->out() : (*gpu)->in();
  const Status begun = line.begin_copy(to, from, copy.dst.size, cookie);
  return begun.ok() ? End{cookie, Outcome::kPending, 0} : failed(cookie, begun);
}

size_t CopyWork::poll(std::span<End> ends) {
  size_t count = 0;
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr || (gpu->out().idle() && gpu->in().idle())) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : {&gpu->out(), &gpu->in()}) {
      while (!line->idle() && count < ends.size()) {
        const Result<bool> ended = line->ended();
        if (!ended.ok()) {
          ends[count++] = failed(line->take().cookie, ended.status());
          continue;
        }
        if (!*ended) break;
        ends[count++] = line->take();
      }
    }
  }
  return count;
}

bool CopyWork::arm() {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : {&gpu->out(), &gpu->in()}) {
      if (line->idle()) continue;
      const Result<bool> ended = line->ended();
      if (!ended.ok() || *ended || !line->ring_for_oldest(bell_).ok()) return false;
    }
  }
  return true;
}

void CopyWork::disarm() {
  quiet(bell_);
}

void CopyWork::abandon() {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    gpu->out().abandon();
    gpu->in().abandon();
  }
  if (windows_ != nullptr) windows_->withdraw_all();
}

Status CopyWork::begin_own(OpenGpu& gpu, const Copy& copy) {
  const Result<CopyLine*> line = gpu.own();
  BANYAN_TRY(line.status());
  const CurrentContext current = gpu.make_current();
  return (*line)->begin_copy(copy.to, copy.from, copy.bytes, 0);
}

Status CopyWork::copy_now(std::span<const Copy> copies) {
  Status status;
  for (const Copy& copy : copies) {
    Result<OpenGpu*> gpu = gpu_of(copy.from);
    if (!gpu.ok()) gpu = gpu_of(copy.to);
    status = gpu.ok() ? begin_own(**gpu, copy) : gpu.status();
    if (!status.ok()) break;
  }
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const Status finished = gpu->finish_own();
    if (status.ok()) status = finished;
  }
  return status;
}

Result<std::byte*> CopyWork::take_beside(const void* address, size_t bytes) {
  const Result<OpenGpu*> gpu = gpu_of(address);
  BANYAN_TRY(gpu.status());
  const CurrentContext current = (*gpu)->make_current();
  return (*gpu)->pool().take(bytes);
}

void CopyWork::give_back(const std::byte* memory) {
  for (const auto& gpu : gpus_)
    if (gpu != nullptr && gpu->pool().give_back(memory)) return;
}

void CopyWork::pin(std::byte* memory, size_t bytes) {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    if (cuda_.register_host(memory, bytes, kPortable) != kCudaSuccess) all_is_pinned_ = false;
    return;
  }
}

void CopyWork::unpin(std::byte* memory) {
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    (void)cuda_.unregister_host(memory);
    return;
  }
}

}  // namespace banyan
