// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/open_gpu.h"

#include "compression/codecs.h"
#include "compression/cuda/module.h"

namespace banyan {
namespace {

// Those for the GPU of the current context.
Result<KernelsOfGpu> find_kernels(const CudaFunctions& cuda) {
  Result<CudaModule> loaded = CudaModule::load(cuda);
  BANYAN_TRY(loaded.status());
  const auto module = std::make_shared<const CudaModule>(std::move(*loaded));
  Result<CudaCodecs> codecs = CudaCodecs::find_in(module);
  BANYAN_TRY(codecs.status());
  Result<CudaKernels> sums = CudaKernels::find_in(module);
  BANYAN_TRY(sums.status());
  Result<CudaFolds> folds = CudaFolds::find_in(module);
  BANYAN_TRY(folds.status());
  Result<CudaSparse> sparse = CudaSparse::find_in(module);
  BANYAN_TRY(sparse.status());
  Result<CudaTopk> topk = CudaTopk::find_in(module);
  BANYAN_TRY(topk.status());
  Result<CudaOnebit> onebit = CudaOnebit::find_in(module);
  BANYAN_TRY(onebit.status());
  Result<CudaGradients> gradients = CudaGradients::find_in(module);
  BANYAN_TRY(gradients.status());
  return KernelsOfGpu{std::move(*codecs),   std::move(*sums), std::move(*folds),
                      std::move(*sparse),   std::move(*topk), std::move(*onebit),
                      std::move(*gradients)};
}

// The type of the values in its messages, where a codec does nothing but round.
std::optional<DataType> cast_to(CodecId codec) {
  if (codec == kFp16) return DataType::kFloat16;
  return codec == kBf16 ? std::optional(DataType::kBfloat16) : std::nullopt;
}

}  // namespace

bool is_codec_of_gpus(CodecId codec, DataType accumulator) {
  return cast_to(codec) || codec == kOnebit || has_cuda_codec(codec, DataType::kFloat32) ||
         has_cuda_sparse(codec, {}, accumulator);
}

Status KernelsOfGpu::encode(CodecId codec, const Coding& coding, DataType type,
                            const std::byte* values, uint64_t count, std::byte* message,
                            std::byte* left, Stream stream) const {
  const auto cast = cast_to(codec);
  if (!cast) return codecs.encode(codec, coding, type, values, count, message, left, stream);
  BANYAN_TRY(sums.encode(*cast, message, values, count, 1, stream));
  return left == nullptr ? Status() : sums.leave(*cast, left, values, count, stream);
}

Status KernelsOfGpu::decode(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                            std::byte* values, Stream stream) const {
  if (const auto cast = cast_to(codec))
    return sums.decode(*cast, values, message, count, nullptr, stream);
  return codecs.decode(codec, type, message, count, values, stream);
}

Status KernelsOfGpu::decode_add(CodecId codec, DataType type, const std::byte* message,
                                uint64_t count, const std::byte* addend, std::byte* sum,
                                Stream stream) const {
  if (const auto cast = cast_to(codec))
    return sums.decode_reduce(*cast, ReduceOp::kSum, sum, addend, message, count, stream);
  return codecs.decode_add(codec, type, message, count, addend, sum, stream);
}

Status KernelsOfGpu::fold(CodecId codec, const Coding& coding,
                          std::span<const std::byte* const> messages, uint64_t count,
                          std::byte* message, Stream stream) const {
  if (const auto cast = cast_to(codec))
    return folds.fold(*cast, ReduceOp::kSum, message, messages, count, 1, stream);
  return codecs.fold(codec, coding, DataType::kFloat32, messages, count, message, stream);
}

OpenGpu::~OpenGpu() {
  const CurrentContext current = make_current();
  for (std::unique_ptr<CopyLine>* line : {&out_, &in_, &own_, &delegates_}) line->reset();
  kernels_.reset();
  pool_.reset();
}

Status OpenGpu::open(int ordinal) {
  BANYAN_TRY(context_.retain(ordinal));
  ordinal_ = ordinal;
  remote_writes_ = find_remote_writes();
  const CurrentContext current = make_current();
  for (std::unique_ptr<CopyLine>* line : {&out_, &in_}) {
    *line = std::make_unique<CopyLine>(cuda_);
    BANYAN_TRY((*line)->open());
  }
  return {};
}

RemoteWrites OpenGpu::find_remote_writes() const {
  constexpr int kByHost = 1;  // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
  CudaFunctions::Device device = 0;
  int ordering = 0, options = 0;
  if (cuda_.attribute == nullptr || cuda_.device(&device, ordinal_) != kCudaSuccess)
    return RemoteWrites::kUnseen;
  if (cuda_.attribute(&ordering, kCudaWritesOrdering, device) == kCudaSuccess &&
      ordering >= kCudaSeenByOwner)
    return RemoteWrites::kSeen;
  const bool flushes = cuda_.flush_remote_writes != nullptr &&
                       cuda_.attribute(&options, kCudaFlushOptions, device) == kCudaSuccess &&
                       (options & kByHost) != 0;
  return flushes ? RemoteWrites::kSeenWhenFlushed : RemoteWrites::kUnseen;
}

Status OpenGpu::settle_remote_writes() const {
  if (remote_writes_ != RemoteWrites::kSeenWhenFlushed) return {};
  constexpr int kCurrentContext = 0;
  const CurrentContext current = make_current();
  return cuda_status(cuda_, cuda_.flush_remote_writes(kCurrentContext, kCudaSeenByOwner),
                     "cuFlushGPUDirectRDMAWrites");
}

Result<CopyLine*> OpenGpu::opened(std::unique_ptr<CopyLine>& line) {
  if (line == nullptr) {
    const CurrentContext current = make_current();
    auto made = std::make_unique<CopyLine>(cuda_);
    BANYAN_TRY(made->open());
    line = std::move(made);
  }
  return line.get();
}

Result<CopyLine*> OpenGpu::own() {
  return opened(own_);
}

Result<CopyLine*> OpenGpu::delegates() {
  return opened(delegates_);
}

Status OpenGpu::finish_own() {
  if (own_ == nullptr || own_->idle()) return {};
  const CurrentContext current = make_current();
  return own_->finish();
}

const KernelsOfGpu* OpenGpu::kernels() {
  if (!std::exchange(looked_for_kernels_, true)) load_kernels();
  return kernels_ ? &*kernels_ : nullptr;
}

void OpenGpu::load_kernels() {
  const CurrentContext current = make_current();
  Result<KernelsOfGpu> loaded = find_kernels(cuda_);
  if (loaded.ok())
    kernels_.emplace(std::move(*loaded));
  else
    why_no_kernels_ = loaded.status().message();
}

}  // namespace banyan
