// Tells in whose memory an address is. The driver is asked once for each call: it says what sort of
// memory that is and the number of the buffer, which no other has in the life of a process. What
// else there is to know is kept by that number, so that memory which comes to lie where other was
// is never taken for it. Source: CUDA Driver API, "Unified Addressing",
// CU_POINTER_ATTRIBUTE_BUFFER_ID.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "src/base/cuda_driver.h"

namespace banyan {

struct PointerPlace {
  bool on_device = false;  // where the host cannot touch it, as it can managed memory
  int ordinal = -1;        // the device whose it is, as pinned memory is, too; -1: none's
  int error = 0;           // the driver's, which then does not say whose it is

  bool operator==(const PointerPlace&) const = default;
};

// Thread-safe. Memory that the driver does not know is the host's. After an error of the GPU the
// driver says nothing: what the host cannot read is on a device then.
PointerPlace pointer_place(const CudaFunctions& cuda, const void* address);

}  // namespace banyan
