// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/host_twin.h"

#include "src/cuda/device_memory.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

using Handle = CudaFunctions::Handle;

Status copy_in_stream(const CudaFunctions& cuda, Handle stream, void* to, const void* from,
                      size_t bytes) {
  BANYAN_TRY(cuda_status(cuda, cuda.copy(cuda_address(to), cuda_address(from), bytes, stream),
                         "cuMemcpyAsync"));
  return cuda_status(cuda, cuda.synchronize_stream(stream), "cuStreamSynchronize");
}

// In a stream of its own, so that it is ordered by none of the caller's, which may be captured.
Status copy_now(const void* on_device, void* to, const void* from, size_t bytes) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  const CudaFunctions& cuda = *cuda_of_process();
  BANYAN_TRY(check_driver(cuda));
  const Result<int> ordinal = ordinal_of(cuda, on_device);
  BANYAN_TRY(ordinal.status());
  PrimaryContext context(cuda);
  BANYAN_TRY(context.retain(*ordinal));
  const CurrentContext current(cuda, context.get());
  Handle stream = nullptr;
  BANYAN_TRY(cuda_status(cuda, cuda.create_stream(&stream, kNonBlocking), "cuStreamCreate"));
  const Status copied = copy_in_stream(cuda, stream, to, from, bytes);
  const Status ended = cuda_status(cuda, cuda.destroy_stream(stream), "cuStreamDestroy");
  return copied.ok() ? ended : copied;
}

}  // namespace

HostTwin::HostTwin(void* address, size_t bytes)
    : address_(static_cast<std::byte*>(address)), bytes_(bytes) {
  if (bytes != 0 && is_in_device_memory(address))
    twin_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
}

Status HostTwin::bring() {
  if (twin_ == nullptr) return {};
  return copy_now(address_, twin_.get(), address_, bytes_);
}

Status HostTwin::take_back(size_t bytes) {
  if (twin_ == nullptr || bytes == 0) return {};
  return copy_now(address_, address_, twin_.get(), bytes);
}

}  // namespace banyan
