// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/window_memory.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "src/base/system_error.h"
#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

constexpr unsigned kEnablePeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

enum class Origin : uint8_t { kNone, kAllocated, kBorrowed, kReserved, kMapped };

// Memory in a device's primary context, until the last who uses it is gone.
struct HeldMemory {
  explicit HeldMemory(const CudaFunctions& functions) : cuda(functions), context(cuda) {}
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  ~HeldMemory() {
    if (origin == Origin::kNone) return;
    const CurrentContext current(cuda, context.get());
    if (origin == Origin::kAllocated) (void)cuda.free(address);
    if (origin == Origin::kBorrowed) (void)cuda.return_borrowed(address);
    if (origin < Origin::kReserved) return;
    // The calls above wait for what uses the memory, and this one does not. What was never handed
    // out nobody uses: then a stream may wait for this very thread.
    if (is_out && cuda.synchronize != nullptr) (void)cuda.synchronize();
    if (origin == Origin::kMapped) (void)cuda.unmap(address, bytes);
    (void)cuda.free_reserved(address, bytes);
  }

  const CudaFunctions cuda;
  PrimaryContext context;
  Origin origin = Origin::kNone;
  bool is_out = false;
  CudaFunctions::Address address = 0;
  size_t bytes = 0;
};

using Held = std::shared_ptr<HeldMemory>;

Result<Held> memory_on(const CudaFunctions& cuda, const OpenGpu& gpu) {
  auto memory = std::make_shared<HeldMemory>(cuda);
  BANYAN_TRY(memory->context.retain(gpu.ordinal()));
  return memory;
}

// It lasts as long as that, and is the pointer.
SharedWindow hand_out(const Held& memory) {
  memory->is_out = true;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  return {memory, reinterpret_cast<void*>(memory->address)};
}

// What a peer lends may be shorter than it says.
Status check_length(const CudaFunctions& cuda, CudaFunctions::Address address, uint64_t bytes) {
  constexpr int kRangeStart = 11, kRangeSize = 12;  // CUpointer_attribute
  uint64_t start = 0, size = 0;
  BANYAN_TRY(cuda_status(cuda, cuda.pointer_attribute(&start, kRangeStart, address),
                         "cuPointerGetAttribute"));
  BANYAN_TRY(cuda_status(cuda, cuda.pointer_attribute(&size, kRangeSize, address),
                         "cuPointerGetAttribute"));
  const bool holds = start <= address && size >= bytes && address - start <= size - bytes;
  if (holds) return {};
  return {Code::kInvalidArgument, fmt::format("it has {} bytes, and a window has {}", size, bytes)};
}

// A handle to an allocation, which stays while anything is mapped of it.
struct HeldAllocation {
  explicit HeldAllocation(const CudaFunctions& functions) : cuda(functions) {}
  HeldAllocation(const HeldAllocation&) = delete;
  HeldAllocation& operator=(const HeldAllocation&) = delete;
  ~HeldAllocation() {
    if (there) (void)cuda.release_memory(handle);
  }

  const CudaFunctions& cuda;
  CudaFunctions::Memory handle = 0;
  bool there = false;
};

// All of the window, for the GPU of its context.
Status map_whole(HeldMemory& held, const HeldAllocation& allocation, size_t bytes, int ordinal) {
  const CudaFunctions& cuda = held.cuda;
  BANYAN_TRY(cuda_status(cuda, cuda.reserve(&held.address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  held.bytes = bytes;
  held.origin = Origin::kReserved;
  BANYAN_TRY(cuda_status(cuda, cuda.map(held.address, bytes, 0, allocation.handle, 0), "cuMemMap"));
  held.origin = Origin::kMapped;
  const CudaAccess access{.location = {.id = ordinal}};
  return cuda_status(cuda, cuda.set_access(held.address, bytes, &access, 1), "cuMemSetAccess");
}

}  // namespace

Status check_handles(const CudaFunctions& cuda) {
  if (cuda.allocate == nullptr || cuda.free == nullptr || cuda.lend == nullptr ||
      cuda.borrow == nullptr || cuda.return_borrowed == nullptr || cuda.enable_peer == nullptr)
    return {Code::kUnsupported, "the CUDA driver of this process lends no memory"};
  return {};
}

Status check_descriptors(const CudaFunctions& cuda) {
  if (cuda.create_memory == nullptr || cuda.release_memory == nullptr || cuda.reserve == nullptr ||
      cuda.free_reserved == nullptr || cuda.map == nullptr || cuda.unmap == nullptr ||
      cuda.set_access == nullptr || cuda.export_memory == nullptr || cuda.import_memory == nullptr)
    return {Code::kUnsupported, "the CUDA driver of this process shares no memory by descriptors"};
  return {};
}

Result<SharedWindow> allocate_window(const CudaFunctions& cuda, const OpenGpu& gpu, size_t bytes) {
  Result<Held> memory = memory_on(cuda, gpu);
  BANYAN_TRY(memory.status());
  HeldMemory& held = **memory;
  const CurrentContext current(cuda, held.context.get());
  BANYAN_TRY(cuda_status(cuda, cuda.allocate(&held.address, bytes), "cuMemAlloc"));
  held.origin = Origin::kAllocated;
  return hand_out(*memory);
}

Result<SharedWindow> borrow_window(const CudaFunctions& cuda, const OpenGpu& gpu,
                                   const CudaIpcHandle& handle, size_t bytes) {
  Result<Held> memory = memory_on(cuda, gpu);
  BANYAN_TRY(memory.status());
  HeldMemory& held = **memory;
  BANYAN_TRY(cuda_status(cuda, cuda.borrow(&held.address, handle, kEnablePeerAccess),
                         "cuIpcOpenMemHandle"));
  held.origin = Origin::kBorrowed;
  BANYAN_TRY(check_length(cuda, held.address, bytes));
  return hand_out(*memory);
}

Result<ExportedWindow> export_window(const CudaFunctions& cuda, const OpenGpu& gpu, size_t bytes) {
  BANYAN_TRY(check_descriptors(cuda));
  Result<Held> memory = memory_on(cuda, gpu);
  BANYAN_TRY(memory.status());
  const CudaAllocation wished{.handle_types = kCudaFileDescriptor,
                              .location = {.id = gpu.ordinal()}};
  HeldAllocation allocation(cuda);
  BANYAN_TRY(
      cuda_status(cuda, cuda.create_memory(&allocation.handle, bytes, &wished, 0), "cuMemCreate"));
  allocation.there = true;
  BANYAN_TRY(map_whole(**memory, allocation, bytes, gpu.ordinal()));
  int descriptor = -1;
  BANYAN_TRY(cuda_status(cuda,
                         cuda.export_memory(&descriptor, allocation.handle, kCudaFileDescriptor, 0),
                         "cuMemExportToShareableHandle"));
  Descriptor exported(descriptor);
  // Whether programs that this one starts would have it, the driver does not say.
  if (!exported.valid() || ::fcntl(exported.get(), F_SETFD, FD_CLOEXEC) != 0)
    return system_error("keeping the descriptor of a window", errno);
  return ExportedWindow{hand_out(*memory), std::move(exported)};
}

Result<SharedWindow> import_window(const CudaFunctions& cuda, const OpenGpu& gpu,
                                   const Descriptor& descriptor, size_t bytes) {
  BANYAN_TRY(check_descriptors(cuda));
  Result<Held> memory = memory_on(cuda, gpu);
  BANYAN_TRY(memory.status());
  HeldAllocation allocation(cuda);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has descriptors in clothes of pointers
  auto* number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get()));
  BANYAN_TRY(cuda_status(cuda, cuda.import_memory(&allocation.handle, number, kCudaFileDescriptor),
                         "cuMemImportFromShareableHandle"));
  allocation.there = true;
  BANYAN_TRY(map_whole(**memory, allocation, bytes, gpu.ordinal()));
  return hand_out(*memory);
}

Status open_window_to(const CudaFunctions& cuda, const void* window, size_t bytes, int ordinal) {
  BANYAN_TRY(check_descriptors(cuda));
  const CudaAccess access{.location = {.id = ordinal}};
  return cuda_status(cuda, cuda.set_access(cuda_address(window), bytes, &access, 1),
                     "cuMemSetAccess");
}

}  // namespace banyan
