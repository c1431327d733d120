// The functions of the CUDA driver that the stand-in has (CUDA Driver API reference, 12 and 13).
// Handles are numbers in clothes of pointers: nothing is there.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/cuda_driver.h"

using CuHandle = banyan::CudaFunctions::Handle;
using CuAddress = banyan::CudaFunctions::Address;
using CuDevice = banyan::CudaFunctions::Device;
using CuIpcMemHandle = banyan::CudaIpcHandle;
using CuMemHandle = banyan::CudaFunctions::Memory;
using CuLocation = banyan::CudaLocation;
using CuAllocationProperties = banyan::CudaAllocation;
using CuAccess = banyan::CudaAccess;

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
extern "C" {
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuGetErrorName(int error, const char** name);
int cuGetErrorString(int error, const char** text);

int cuDeviceGetCount(int* count);
int cuDeviceGet(CuDevice* device, int ordinal);
int cuDeviceGetByPCIBusId(CuDevice* device, const char* text);
int cuDeviceGetPCIBusId(char* text, int bytes, CuDevice device);
int cuDeviceGetName(char* text, int bytes, CuDevice device);
int cuDeviceTotalMem_v2(size_t* bytes, CuDevice device);
int cuDeviceGetAttribute(int* value, int attribute, CuDevice device);
int cuDeviceGetUuid(banyan::CudaUuid* uuid, CuDevice device);
int cuDeviceGetUuid_v2(banyan::CudaUuid* uuid, CuDevice device);
int cuDeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer);
int cuDeviceGetP2PAttribute(int* value, int attribute, CuDevice from, CuDevice to);
int cuFlushGPUDirectRDMAWrites(int target, int scope);

int cuDevicePrimaryCtxRetain(CuHandle* context, CuDevice device);
int cuDevicePrimaryCtxRelease_v2(CuDevice device);
int cuDevicePrimaryCtxReset_v2(CuDevice device);
int cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active);
int cuCtxSetCurrent(CuHandle context);
int cuCtxGetCurrent(CuHandle* context);
int cuCtxPushCurrent_v2(CuHandle context);
int cuCtxPopCurrent_v2(CuHandle* context);
int cuCtxGetDevice(CuDevice* device);
int cuCtxSynchronize();
int cuCtxGetStreamPriorityRange(int* least, int* greatest);
int cuCtxEnablePeerAccess(CuHandle peer, unsigned flags);
int cuCtxDisablePeerAccess(CuHandle peer);

int cuMemAlloc_v2(CuAddress* address, size_t bytes);
int cuMemFree_v2(CuAddress address);
int cuMemAllocManaged(CuAddress* address, size_t bytes, unsigned flags);
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags);
int cuMemAllocHost_v2(void** memory, size_t bytes);
int cuMemFreeHost(void* memory);
int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags);
int cuMemHostUnregister(void* memory);
int cuMemHostGetDevicePointer_v2(CuAddress* address, void* memory, unsigned flags);
int cuMemHostGetFlags(unsigned* flags, void* memory);
int cuMemGetInfo_v2(size_t* free, size_t* total);
int cuMemGetAddressRange_v2(CuAddress* begin, size_t* bytes, CuAddress address);
int cuPointerGetAttribute(void* value, int attribute, CuAddress address);
int cuPointerGetAttributes(unsigned count, int* attributes, void** values, CuAddress address);

int cuIpcGetMemHandle(CuIpcMemHandle* handle, CuAddress address);
int cuIpcOpenMemHandle_v2(CuAddress* address, CuIpcMemHandle handle, unsigned flags);
int cuIpcCloseMemHandle(CuAddress address);

int cuMemGetAllocationGranularity(size_t* bytes, const CuAllocationProperties* properties,
                                  int option);
int cuMemCreate(CuMemHandle* handle, size_t bytes, const CuAllocationProperties* properties,
                unsigned long long flags);
int cuMemRelease(CuMemHandle handle);
int cuMemRetainAllocationHandle(CuMemHandle* handle, void* address);
int cuMemGetAllocationPropertiesFromHandle(CuAllocationProperties* properties, CuMemHandle handle);
int cuMemAddressReserve(CuAddress* address, size_t bytes, size_t alignment, CuAddress wished,
                        unsigned long long flags);
int cuMemAddressFree(CuAddress address, size_t bytes);
int cuMemMap(CuAddress address, size_t bytes, size_t offset, CuMemHandle handle,
             unsigned long long flags);
int cuMemUnmap(CuAddress address, size_t bytes);
int cuMemSetAccess(CuAddress address, size_t bytes, const CuAccess* accesses, size_t count);
int cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, int type,
                                 unsigned long long flags);
int cuMemImportFromShareableHandle(CuMemHandle* handle, void* shareable, int type);

int cuMemcpy(CuAddress to, CuAddress from, size_t bytes);
int cuMemcpyHtoD_v2(CuAddress to, const void* from, size_t bytes);
int cuMemcpyDtoH_v2(void* to, CuAddress from, size_t bytes);
int cuMemcpyDtoD_v2(CuAddress to, CuAddress from, size_t bytes);
int cuMemcpyAsync(CuAddress to, CuAddress from, size_t bytes, CuHandle stream);
int cuMemcpyHtoDAsync_v2(CuAddress to, const void* from, size_t bytes, CuHandle stream);
int cuMemcpyDtoHAsync_v2(void* to, CuAddress from, size_t bytes, CuHandle stream);
int cuMemcpyDtoDAsync_v2(CuAddress to, CuAddress from, size_t bytes, CuHandle stream);
int cuMemsetD8_v2(CuAddress to, unsigned char value, size_t count);
int cuMemsetD8Async(CuAddress to, unsigned char value, size_t count, CuHandle stream);
int cuMemsetD32_v2(CuAddress to, unsigned value, size_t count);
int cuMemsetD32Async(CuAddress to, unsigned value, size_t count, CuHandle stream);

int cuStreamCreate(CuHandle* stream, unsigned flags);
int cuStreamCreateWithPriority(CuHandle* stream, unsigned flags, int priority);
int cuStreamDestroy_v2(CuHandle stream);
int cuStreamQuery(CuHandle stream);
int cuStreamSynchronize(CuHandle stream);
int cuStreamGetCtx(CuHandle stream, CuHandle* context);
int cuStreamGetFlags(CuHandle stream, unsigned* flags);
int cuStreamGetPriority(CuHandle stream, int* priority);
int cuStreamWaitEvent(CuHandle stream, CuHandle event, unsigned flags);
int cuLaunchHostFunc(CuHandle stream, void (*function)(void*), void* argument);
int cuStreamWaitValue32_v2(CuHandle stream, CuAddress address, uint32_t value, unsigned flags);
int cuStreamWaitValue64_v2(CuHandle stream, CuAddress address, uint64_t value, unsigned flags);
int cuStreamWriteValue32_v2(CuHandle stream, CuAddress address, uint32_t value, unsigned flags);
int cuStreamWriteValue64_v2(CuHandle stream, CuAddress address, uint64_t value, unsigned flags);

int cuEventCreate(CuHandle* event, unsigned flags);
int cuEventDestroy_v2(CuHandle event);
int cuEventRecord(CuHandle event, CuHandle stream);
int cuEventQuery(CuHandle event);
int cuEventSynchronize(CuHandle event);
int cuEventElapsedTime(float* ms, CuHandle from, CuHandle to);
int cuEventElapsedTime_v2(float* ms, CuHandle from, CuHandle to);

int cuStreamBeginCapture_v2(CuHandle stream, int mode);
int cuStreamEndCapture(CuHandle stream, CuHandle* graph);
int cuStreamIsCapturing(CuHandle stream, int* status);
int cuStreamGetCaptureInfo_v2(CuHandle stream, int* status, uint64_t* id, CuHandle* graph,
                              const CuHandle** dependencies, size_t* count);
int cuThreadExchangeStreamCaptureMode(int* mode);
int cuGraphInstantiateWithFlags(CuHandle* executable, CuHandle graph, unsigned long long flags);
int cuGraphLaunch(CuHandle executable, CuHandle stream);
int cuGraphDestroy(CuHandle graph);
int cuGraphExecDestroy(CuHandle executable);

int cuModuleLoadData(CuHandle* module, const void* image);
int cuModuleUnload(CuHandle module);
int cuModuleGetFunction(CuHandle* function, CuHandle module, const char* name);
int cuLaunchKernel(CuHandle function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared, CuHandle stream,
                   void** parameters, void** extra);
}
// NOLINTEND(readability-identifier-naming)
