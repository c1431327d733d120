// SPDX-License-Identifier: Apache-2.0

#include "src/base/cuda_driver.h"

#include <dlfcn.h>

namespace banyan {

namespace {

template <typename Function>
void find_in(void* library, const char* name, Function** function) {
  // POSIX has dlsym() give functions as void*.
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

CudaFunctions cuda_functions(void* library) {
  CudaFunctions f;
  find_in(library, "cuInit", &f.init);
  find_in(library, "cuDeviceGetCount", &f.device_count);
  find_in(library, "cuDeviceGet", &f.device);
  find_in(library, "cuDeviceGetPCIBusId", &f.bus_id);
  find_in(library, "cuDeviceGetName", &f.name);
  find_in(library, "cuDeviceTotalMem_v2", &f.memory);
  find_in(library, "cuDeviceGetAttribute", &f.attribute);
  find_in(library, "cuDeviceGetUuid", &f.uuid);
  find_in(library, "cuDeviceGetUuid_v2", &f.partition_uuid);
  find_in(library, "cuPointerGetAttribute", &f.pointer_attribute);
  find_in(library, "cuPointerGetAttributes", &f.pointer_attributes);
  find_in(library, "cuGetErrorName", &f.error_name);
  find_in(library, "cuDevicePrimaryCtxRetain", &f.retain_context);
  find_in(library, "cuDevicePrimaryCtxRelease_v2", &f.release_context);
  find_in(library, "cuCtxSetCurrent", &f.set_context);
  find_in(library, "cuCtxGetDevice", &f.current_device);
  find_in(library, "cuCtxSynchronize", &f.synchronize);
  find_in(library, "cuModuleLoadData", &f.load_module);
  find_in(library, "cuModuleUnload", &f.unload_module);
  find_in(library, "cuModuleGetFunction", &f.function);
  find_in(library, "cuLaunchKernel", &f.launch);
  find_in(library, "cuMemAlloc_v2", &f.allocate);
  find_in(library, "cuMemFree_v2", &f.free);
  find_in(library, "cuMemcpyHtoDAsync_v2", &f.to_device);
  find_in(library, "cuMemcpyDtoHAsync_v2", &f.to_host);
  find_in(library, "cuMemcpyDtoDAsync_v2", &f.on_device);
  find_in(library, "cuMemsetD8Async", &f.fill);
  find_in(library, "cuStreamCreate", &f.create_stream);
  find_in(library, "cuStreamDestroy_v2", &f.destroy_stream);
  find_in(library, "cuStreamSynchronize", &f.synchronize_stream);
  find_in(library, "cuEventCreate", &f.create_event);
  find_in(library, "cuEventDestroy_v2", &f.destroy_event);
  find_in(library, "cuEventRecord", &f.record_event);
  find_in(library, "cuEventElapsedTime", &f.elapsed);
  find_in(library, "cuCtxGetCurrent", &f.current_context);
  find_in(library, "cuCtxPushCurrent_v2", &f.push_context);
  find_in(library, "cuCtxPopCurrent_v2", &f.pop_context);
  find_in(library, "cuMemcpyAsync", &f.copy);
  find_in(library, "cuEventQuery", &f.query_event);
  find_in(library, "cuStreamQuery", &f.query_stream);
  find_in(library, "cuStreamWaitEvent", &f.wait_event);
  find_in(library, "cuLaunchHostFunc", &f.call_host);
  find_in(library, "cuStreamWaitValue32_v2", &f.wait_value);
  find_in(library, "cuStreamWriteValue32_v2", &f.write_value);
  find_in(library, "cuStreamIsCapturing", &f.is_capturing);
  find_in(library, "cuThreadExchangeStreamCaptureMode", &f.exchange_capture_mode);
  find_in(library, "cuMemAllocManaged", &f.allocate_managed);
  find_in(library, "cuMemHostAlloc", &f.allocate_host);
  find_in(library, "cuMemFreeHost", &f.free_host);
  find_in(library, "cuMemHostRegister_v2", &f.register_host);
  find_in(library, "cuMemHostUnregister", &f.unregister_host);
  find_in(library, "cuMemHostGetDevicePointer_v2", &f.host_device_pointer);
  find_in(library, "cuIpcGetMemHandle", &f.lend);
  find_in(library, "cuIpcOpenMemHandle_v2", &f.borrow);
  find_in(library, "cuIpcCloseMemHandle", &f.return_borrowed);
  find_in(library, "cuCtxEnablePeerAccess", &f.enable_peer);
  find_in(library, "cuMemGetAllocationGranularity", &f.granularity);
  find_in(library, "cuMemCreate", &f.create_memory);
  find_in(library, "cuMemRelease", &f.release_memory);
  find_in(library, "cuMemAddressReserve", &f.reserve);
  find_in(library, "cuMemAddressFree", &f.free_reserved);
  find_in(library, "cuMemMap", &f.map);
  find_in(library, "cuMemUnmap", &f.unmap);
  find_in(library, "cuMemSetAccess", &f.set_access);
  find_in(library, "cuMemExportToShareableHandle", &f.export_memory);
  find_in(library, "cuMemImportFromShareableHandle", &f.import_memory);
  find_in(library, "cuFlushGPUDirectRDMAWrites", &f.flush_remote_writes);
  return f;
}

std::optional<CudaFunctions> open_cuda_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return std::nullopt;
  return cuda_functions(library);
}

}  // namespace banyan
