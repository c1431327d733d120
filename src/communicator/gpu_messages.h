// Messages that a transport reads and writes in the memory of GPUs by itself: while it has any, a
// context is current where it works, and who reads what has come sees it.
//
// UCX works in the context that is current when it is turned. What a network adapter has written
// may reach a GPU after the word that it has. Sources: UCX, uct/cuda; CUDA Driver API,
// cuFlushGPUDirectRDMAWrites.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "src/cuda/copy_work.h"
#include "transports/transport.h"

namespace banyan {

// Stands around that transport. `copies` outlives all but its destruction.
std::unique_ptr<Transport> with_gpus(std::unique_ptr<Transport> inner, CopyWork& copies);

}  // namespace banyan
