// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/copy_work.h"

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

// Where what an encoding does not say goes, or null.
std::byte* left_of(const LocalStep& local) {
  return local.step.dst2.size == 0 ? nullptr : local.spaces.at(local.step.dst2);
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

Result<OpenGpu*> CopyWork::gpu_of(const void* address) {
  const Result<int> ordinal = ordinal_of(cuda_, address);
  BANYAN_TRY(ordinal.status());
  const auto index = static_cast<size_t>(*ordinal);
  if (index >= gpus_.size()) gpus_.resize(index + 1);
  if (gpus_[index] != nullptr) return gpus_[index].get();
  auto gpu = std::make_unique<OpenGpu>(cuda_);
  BANYAN_TRY(gpu->open(*ordinal));
  sees_messages_ = sees_messages_ && gpu->remote_writes() != RemoteWrites::kUnseen;
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
  if (step.codec == kOnebit) return run_onebit(**gpu, local, cookie);
  uint64_t bytes = 0;
  if (step.codec != kNoCodec) {
    bytes = codecs()[step.codec - size_t{1}].capacity(coding, step.type, count);
    if (!encodes && local.message_bytes != bytes) return {cookie, Outcome::kCorrupt, 0};
  }
  std::byte* const dst = local.spaces.at(step.dst);
  std::byte* const left = left_of(local);
  const std::byte* const src = local.spaces.at(step.src);
  const auto enqueue = [&](Handle stream) -> Status {
    if (step.codec == kNoCodec)
      return kernels->sums.encode(step.type, dst, src, count, local.arithmetic.divisor, stream);
    if (encodes)
      return kernels->encode(step.codec, coding, step.type, src, count, dst, left, stream);
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
  return gpu.out().begin_counted(cookie, CudaSparse::room(step.codec, count),
                                 [&](Handle stream, std::byte* room, uint64_t* said) {
                                   return kernels.sparse.encode(step.codec, coding, src, count, dst,
                                                                left_of(local), room, said, stream);
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
  if (!CudaSparse::is_message(step.codec, coding, message, count))
    return {cookie, Outcome::kCorrupt};
  const Status begun = gpu.in().begin_in_room(
      cookie, CudaSparse::room(step.codec, count), [&](Handle stream, std::byte* room) {
        const CudaSparse& sparse = gpu.kernels()->sparse;
        return adds ? sparse.decode_add(step.codec, coding, message, count, src, dst, room, stream)
                    : sparse.decode(step.codec, coding, message, count, dst, room, stream);
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

// The flag of its messages travels behind them.
LocalWork::End CopyWork::run_onebit(OpenGpu& gpu, const LocalStep& local, uint64_t cookie) {
  const Step& step = local.step;
  const bool encodes = step.op == Op::kEncode;
  const bool adds = step.op == Op::kDecodeAdd;
  const uint64_t count = (encodes ? step.src : step.dst).size / size_of(step.type);
  std::byte* const dst = local.spaces.at(step.dst);
  const std::byte* const src = local.spaces.at(step.src);
  CodecMessage message{.bytes = adds ? local.spaces.at(step.src2) : src};
  if (!encodes) {
    if (local.message_bytes == 0) return {cookie, Outcome::kCorrupt};
    message.size = local.message_bytes - 1;
    message.flags = static_cast<uint8_t>(message.bytes[message.size]);
    if (!CudaOnebit::is_message(message, count)) return {cookie, Outcome::kCorrupt};
  }
  const CudaOnebit& onebit = gpu.kernels()->onebit;
  const auto enqueue = [&](Handle stream) -> Status {
    if (encodes) return onebit.encode(step.type, src, count, dst, left_of(local), stream);
    return adds ? onebit.decode_add(step.type, message, count, src, dst, stream)
                : onebit.decode(step.type, message, count, dst, stream);
  };
  const CurrentContext current = gpu.make_current();
  CopyLine& line = encodes ? gpu.out() : gpu.in();
  const uint64_t bytes = encodes ? CudaOnebit::message_bytes(count) : 0;
  const Status begun = line.begin(cookie, bytes, enqueue);
  return begun.ok() ? End{cookie, Outcome::kPending} : failed(cookie, begun);
}

LocalWork::End CopyWork::run(const LocalStep& step, uint64_t cookie) {
  if (step.step.branch == Branch::kPeers && step.step.op != Op::kWithdraw)
    return run_in_windows(step, cookie);
  switch (step.step.op) {
    case Op::kOffer: return run_offer(step, cookie);
    case Op::kDecide: return run_decide(step, cookie);
    case Op::kWithdraw: return run_withdraw(cookie);
    case Op::kCopy: return run_copy(step, cookie);
    default: return run_kernel(step, cookie);
  }
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
  if (delegate_ && !ends.empty()) {
    const CurrentContext current = windows_->gpu()->make_current();
    const Result<bool> noted = note_delegate(*delegate_);
    if (!noted.ok()) ends[count++] = failed(*delegate_, noted.status());
    if (!noted.ok() || *noted) delegate_.reset();
  }
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr || gpu->idle()) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : gpu->lines()) {
      while (line != nullptr && !line->idle() && count < ends.size()) {
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

// When NCCL has enqueued a delegate, it tells nobody.
bool CopyWork::arm() {
  if (delegate_) return false;
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : gpu->lines()) {
      if (line == nullptr || line->idle()) continue;
      const Result<bool> ended = line->ended();
      if (!ended.ok() || *ended || !line->ring_for_oldest(bell_).ok()) return false;
    }
  }
  return true;
}

void CopyWork::disarm() {
  quiet(bell_);
}

// What NCCL has begun may wait for ranks that are gone.
void CopyWork::abandon() {
  const bool begins = std::exchange(delegate_, std::nullopt).has_value();
  if (windows_ != nullptr && windows_->gpu() != nullptr) {
    const CurrentContext current = windows_->gpu()->make_current();
    windows_->nccl().leave();
  }
  for (const auto& gpu : gpus_) {
    if (gpu == nullptr) continue;
    const CurrentContext current = gpu->make_current();
    for (CopyLine* line : gpu->lines())
      if (line != nullptr && (begins || !line->idle())) (void)line->finish();
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

Status CopyWork::settle_messages() {
  for (const auto& gpu : gpus_)
    if (gpu != nullptr) BANYAN_TRY(gpu->settle_remote_writes());
  return {};
}

void CopyWork::enter_for_messages(std::optional<CurrentContext>& current) const {
  for (const auto& gpu : gpus_)
    if (gpu != nullptr && !current) current.emplace(cuda_, gpu->context());
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
