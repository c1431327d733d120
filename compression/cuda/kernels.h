// The arithmetic of the library on the memory of a GPU: what compression/kernels.h says, byte for
// byte, as launches on a stream.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// The kernels of one CUDA context. It holds the module that it has loaded there, and unloads it at
// its end: the context must still exist then, and be current in that thread.
//
// Calls may come from several threads at once; in each of them the context must be current.
//
// A call returns when the kernel is enqueued. Its memory is the caller's, the context can reach it,
// and it stays valid until the stream has got there. Counts are elements. Pointers may have any
// alignment; slow is only a dst that is no multiple of its element's size. A count of zero enqueues
// nothing. Memory may overlap as compression/kernels.h says.
//
// A call that fails has enqueued nothing: kInvalidArgument says what is wrong with it, kCuda which
// error the driver gave. That may be an error of an earlier launch, which its context keeps.
class CudaKernels {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaKernels> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // Those of a module that is loaded.
  static Result<CudaKernels> find_in(std::shared_ptr<const CudaModule> module);

  // dst[i] = local[i] (+) incoming[i], all of one type
  Status reduce(DataType type, ReduceOp op, void* dst, const void* local, const void* incoming,
                size_t count, Stream stream) const;
  // The same for accumulators dst and local, and incoming elements.
  Status decode_reduce(DataType type, ReduceOp op, void* dst, const void* local,
                       const void* incoming, size_t count, Stream stream) const;
  // dst[i] = scalar * src[i]. `scalar` is an element in the memory of the host, read before this
  // returns, or null.
  Status decode(DataType type, void* dst, const void* src, size_t count, const void* scalar,
                Stream stream) const;
  // dst[i] = src[i] / divisor, rounded to an element; divisor >= 1
  Status encode(DataType type, void* dst, const void* src, size_t count, int divisor,
                Stream stream) const;
  // dst[i] = what float32 src[i] loses when it is rounded to float16 or bfloat16, or +0 where that
  // is not finite
  Status leave(DataType type, void* dst, const void* src, size_t count, Stream stream) const;

 private:
  using Function = CudaModule::Function;
  template <typename T>
  using ByType = std::array<T, kDataTypeCount>;

  explicit CudaKernels(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  Status launch(Function function, DataType dst_type, DataType src_type, void* dst,
                const void* local, const void* src, size_t count, uint64_t operand,
                Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  ByType<std::array<Function, kReduceOpCount>> reduce_{};
  ByType<std::array<Function, kReduceOpCount>> decode_reduce_{};
  ByType<Function> decode_{};
  ByType<Function> multiply_{};
  ByType<Function> divide_{};
  ByType<Function> leave_{};
};

}  // namespace banyan
