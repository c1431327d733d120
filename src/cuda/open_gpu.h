// A GPU as one thread uses it: its context, the streams of the library's own, and the kernels.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "banyan/status.h"
#include "compression/cuda/codecs.h"
#include "compression/cuda/folds.h"
#include "compression/cuda/gradients.h"
#include "compression/cuda/kernels.h"
#include "compression/cuda/onebit.h"
#include "compression/cuda/sparse.h"
#include "compression/cuda/topk.h"
#include "src/base/cuda_driver.h"
#include "src/cuda/copy_line.h"
#include "src/cuda/device_pool.h"
#include "src/cuda/driver_calls.h"

namespace banyan {

struct KernelsOfGpu {
  using Stream = CudaModule::Stream;

  CudaCodecs codecs;  // of scaled blocks
  CudaKernels sums;
  CudaFolds folds;
  CudaSparse sparse;
  CudaTopk topk;
  CudaOnebit onebit;
  CudaGradients gradients;

  // By any codec of scaled blocks but onebit, as CudaCodecs has them. Casts, which are of
  // float32, are done by what narrows and widens sums. What a message does not say goes to `left`,
  // which may be null, or `values`.
  Status encode(CodecId codec, const Coding& coding, DataType type, const std::byte* values,
                uint64_t count, std::byte* message, std::byte* left, Stream stream) const;
  Status decode(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                std::byte* values, Stream stream) const;
  Status decode_add(CodecId codec, DataType type, const std::byte* message, uint64_t count,
                    const std::byte* addend, std::byte* sum, Stream stream) const;
  Status fold(CodecId codec, const Coding& coding, std::span<const std::byte* const> messages,
              uint64_t count, std::byte* message, Stream stream) const;
};
// Whether these have that codec for sums of that type.
bool is_codec_of_gpus(CodecId codec, DataType accumulator);

// How what others than the GPU write into its memory is seen by what it does afterwards.
enum class RemoteWrites : uint8_t { kSeen, kSeenWhenFlushed, kUnseen };

class OpenGpu {
 public:
  explicit OpenGpu(const CudaFunctions& cuda)
      : cuda_(cuda), context_(cuda), pool_(std::in_place, cuda) {}
  OpenGpu(const OpenGpu&) = delete;
  OpenGpu& operator=(const OpenGpu&) = delete;
  ~OpenGpu();

  Status open(int ordinal);
  int ordinal() const { return ordinal_; }
  CudaFunctions::Handle context() const { return context_.get(); }
  CurrentContext make_current() const { return {cuda_, context_.get()}; }
  CopyLine& out() { return *out_; }  // to the host and to windows
  CopyLine& in() { return *in_; }
  // On which something else does what ranks give each other: it may wait for other ranks.
  Result<CopyLine*> delegates();
  // Those of the engine; null: it has not that one.
  std::array<CopyLine*, 3> lines() const { return {out_.get(), in_.get(), delegates_.get()}; }
  RemoteWrites remote_writes() const { return remote_writes_; }
  // Makes it see what is there by now.
  Status settle_remote_writes() const;
  bool idle() const {
    const std::array all = lines();
    return std::all_of(all.begin(), all.end(),
                       [](const CopyLine* line) { return line == nullptr || line->idle(); });
  }
  // Beside those of the engine, which nobody polls.
  Result<CopyLine*> own();
  Status finish_own();
  // Memory of it.
  DevicePool& pool() { return *pool_; }

  // Null where the build or the driver has no kernels for this GPU.
  const KernelsOfGpu* kernels();
  // Why there are none, once; afterwards empty.
  std::string take_why_no_kernels() { return std::exchange(why_no_kernels_, {}); }

 private:
  void load_kernels();
  RemoteWrites find_remote_writes() const;
  Result<CopyLine*> opened(std::unique_ptr<CopyLine>& line);

  const CudaFunctions& cuda_;
  int ordinal_ = -1;
  RemoteWrites remote_writes_ = RemoteWrites::kUnseen;
  PrimaryContext context_;  // of which the lines are
  std::unique_ptr<CopyLine> out_, in_;
  std::unique_ptr<CopyLine> own_, delegates_;  // null: nobody needed it
  std::optional<DevicePool> pool_;             // until the context is left
  bool looked_for_kernels_ = false;
  std::string why_no_kernels_;
  std::optional<KernelsOfGpu> kernels_;
};

}  // namespace banyan
