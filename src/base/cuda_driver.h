// The CUDA driver is a table of functions here, so that it can be absent and tests can put another
// in its place. Prototypes are ours: cuda.h is not needed to build (CUDA Driver API reference, 12;
// all of them have been in the library under these names since 11.7, the driver R515).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace banyan {

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaInvalidValue = 1;
inline constexpr int kCudaNotInitialized = 3;
inline constexpr int kCudaDeinitialized = 4;
inline constexpr int kCudaInvalidContext = 201;
inline constexpr int kCudaNotReady = 600;
inline constexpr int kCudaCaptureImplicit = 906;  // the legacy stream, while another captures
inline constexpr int kCudaCaptureRelaxed = 2;     // CUstreamCaptureMode
inline constexpr int kCudaNoBinaryForGpu = 209;
inline constexpr int kCudaInvalidPtx = 218;
inline constexpr int kCudaUnsupportedPtx = 222;
inline constexpr int kCudaFlushOptions = 117;
inline constexpr int kCudaWritesOrdering = 118;
inline constexpr int kCudaSeenByOwner = 100;     // CUGPUDirectRDMAWritesOrdering, and their scope
inline constexpr int kCudaCapabilityMajor = 75;  // CUdevice_attribute
inline constexpr int kCudaCapabilityMinor = 76;

struct CudaUuid {  // CUuuid
  unsigned char bytes[16];
};

struct CudaIpcHandle {  // CUipcMemHandle
  unsigned char bytes[64];
};

inline constexpr int kCudaFileDescriptor = 1;  // CUmemAllocationHandleType

struct CudaLocation {  // CUmemLocation
  int type = 1;        // a device
  int id = 0;
};

struct CudaAllocation {  // CUmemAllocationProp
  int type = 1;          // pinned
  int handle_types = 0;
  CudaLocation location{};
  void* of_windows = nullptr;
  unsigned char flags[8] = {};
};

struct CudaAccess {  // CUmemAccessDesc
  CudaLocation location{};
  int flags = 3;  // reads and writes
};

// Each returns CUresult; any may be null.
struct CudaFunctions {
  using Device = int;
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(Device*, int) = nullptr;
  int (*bus_id)(char*, int, Device) = nullptr;
  int (*name)(char*, int, Device) = nullptr;
  int (*memory)(size_t*, Device) = nullptr;
  int (*attribute)(int*, int, Device) = nullptr;
  int (*uuid)(CudaUuid*, Device) = nullptr;            // of the whole GPU
  int (*partition_uuid)(CudaUuid*, Device) = nullptr;  // with MIG of the instance, else the same
  int (*pointer_attribute)(void*, int, unsigned long long) = nullptr;
  int (*pointer_attributes)(unsigned, int*, void**, unsigned long long) = nullptr;

  using Handle = void*;                // CUcontext, CUmodule, CUfunction, CUstream, CUevent
  using Address = unsigned long long;  // CUdeviceptr
  int (*error_name)(int, const char**) = nullptr;
  int (*retain_context)(Handle*, Device) = nullptr;  // the device's primary one
  int (*release_context)(Device) = nullptr;
  int (*set_context)(Handle) = nullptr;  // of this thread
  int (*current_device)(Device*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*load_module)(Handle*, const void*) = nullptr;
  int (*unload_module)(Handle) = nullptr;
  int (*function)(Handle*, Handle, const char*) = nullptr;
  // The function, blocks and threads in three dimensions, bytes of shared memory, the stream,
  // pointers to the parameters, null.
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                Handle, void**, void**) = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*free)(Address) = nullptr;
  int (*to_device)(Address, const void*, size_t, Handle) = nullptr;
  int (*to_host)(void*, Address, size_t, Handle) = nullptr;
  int (*on_device)(Address, Address, size_t, Handle) = nullptr;
  int (*fill)(Address, unsigned char, size_t, Handle) = nullptr;
  int (*create_stream)(Handle*, unsigned) = nullptr;
  int (*destroy_stream)(Handle) = nullptr;
  int (*synchronize_stream)(Handle) = nullptr;
  int (*create_event)(Handle*, unsigned) = nullptr;
  int (*destroy_event)(Handle) = nullptr;
  int (*record_event)(Handle, Handle) = nullptr;
  int (*elapsed)(float*, Handle, Handle) = nullptr;  // ms
  int (*current_context)(Handle*) = nullptr;
  int (*push_context)(Handle) = nullptr;
  int (*pop_context)(Handle*) = nullptr;
  int (*copy)(Address, Address, size_t, Handle) = nullptr;  // from anywhere to anywhere
  int (*query_event)(Handle) = nullptr;
  int (*query_stream)(Handle) = nullptr;
  int (*wait_event)(Handle, Handle, unsigned) = nullptr;  // the stream waits
  int (*call_host)(Handle, void (*)(void*), void*) = nullptr;
  // The stream waits for a word, or writes it.
  int (*wait_value)(Handle, Address, uint32_t, unsigned) = nullptr;
  int (*write_value)(Handle, Address, uint32_t, unsigned) = nullptr;
  int (*is_capturing)(Handle, int*) = nullptr;
  int (*exchange_capture_mode)(int*) = nullptr;  // of this thread
  int (*allocate_managed)(Address*, size_t, unsigned) = nullptr;
  int (*allocate_host)(void**, size_t, unsigned) = nullptr;
  int (*free_host)(void*) = nullptr;
  int (*register_host)(void*, size_t, unsigned) = nullptr;
  int (*unregister_host)(void*) = nullptr;
  int (*host_device_pointer)(Address*, void*, unsigned) = nullptr;
  int (*lend)(CudaIpcHandle*, Address) = nullptr;  // memory to other processes
  int (*borrow)(Address*, CudaIpcHandle, unsigned) = nullptr;
  int (*return_borrowed)(Address) = nullptr;
  int (*enable_peer)(Handle, unsigned) = nullptr;  // the current context reaches that one's memory

  using Memory = unsigned long long;  // CUmemGenericAllocationHandle
  int (*granularity)(size_t*, const CudaAllocation*, int) = nullptr;
  int (*create_memory)(Memory*, size_t, const CudaAllocation*, unsigned long long) = nullptr;
  int (*release_memory)(Memory) = nullptr;
  int (*reserve)(Address*, size_t, size_t, Address, unsigned long long) = nullptr;
  int (*free_reserved)(Address, size_t) = nullptr;
  int (*map)(Address, size_t, size_t, Memory, unsigned long long) = nullptr;
  int (*unmap)(Address, size_t) = nullptr;
  int (*set_access)(Address, size_t, const CudaAccess*, size_t) = nullptr;
  int (*export_memory)(void*, Memory, int, unsigned long long) = nullptr;
  int (*import_memory)(Memory*, void*, int) = nullptr;
  // For whom: the current context; and for whose eyes.
  int (*flush_remote_writes)(int, int) = nullptr;
};

// Those of a library that dlopen() has given.
CudaFunctions cuda_functions(void* library);
// Those of this machine's, which stays loaded; none where there is none.
std::optional<CudaFunctions> open_cuda_driver();

}  // namespace banyan
