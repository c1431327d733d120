// Memory of a GPU that other ranks of this host may read: how it is made, lent and mapped.
//
// Other processes have it by a handle (CUDA Driver API, cuIpcGetMemHandle), or by a descriptor of
// an allocation that both sides map by themselves (cuMemCreate and what follows there). The second
// way needs no more than that a descriptor can be passed.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"
#include "src/cuda/open_gpu.h"

namespace banyan {

// This rank's or another's, in the primary context of a device. It lasts as long as whoever uses
// it. What made it may wait for its GPU when the last of those is gone.
using SharedWindow = std::shared_ptr<void>;

struct ExportedWindow {
  SharedWindow memory;
  Descriptor descriptor;
};

// kUnsupported: the driver lacks a function that windows need, by handles or by descriptors.
Status check_handles(const CudaFunctions& cuda);
Status check_descriptors(const CudaFunctions& cuda);

// Those below return kCuda where the driver refuses.
Result<SharedWindow> allocate_window(const CudaFunctions& cuda, const OpenGpu& gpu, size_t bytes);
// kInvalidArgument: what is lent is shorter.
Result<SharedWindow> borrow_window(const CudaFunctions& cuda, const OpenGpu& gpu,
                                   const CudaIpcHandle& handle, size_t bytes);

// `bytes` are whole steps of 2 MiB.
Result<ExportedWindow> export_window(const CudaFunctions& cuda, const OpenGpu& gpu, size_t bytes);
Result<SharedWindow> import_window(const CudaFunctions& cuda, const OpenGpu& gpu,
                                   const Descriptor& descriptor, size_t bytes);
// An exported window of this process may be used by that device, too.
Status open_window_to(const CudaFunctions& cuda, const void* window, size_t bytes, int ordinal);

}  // namespace banyan
