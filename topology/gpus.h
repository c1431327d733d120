// What NVML says of GPUs, joined by bus id with what PCI says.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "topology/nvml.h"
#include "topology/topology.h"

namespace banyan {

// GB/s each direction of one link of NVML's version number, which is none of NVLink's: NVLink 1, 2
// and 2.2, 3 and 3.1, 4, 5 (facts of the makers' data sheets). Unknown for others.
Figure nvlink_bandwidth(unsigned nvml_version);
// The same by CUDA's compute capability, 10 times major and minor: 80.
Figure nvlink_of_capability(int64_t capability);
std::string nvlink_name(unsigned nvml_version);  // "NVLink 3"; "NVLink" for others

// Completes the GPUs of a node: number, model, UUID, memory, partitions, NVLinks, and a GPU that
// PCI did not show. What a call refuses stays as it was. False where NVML itself refuses to begin.
bool add_nvml_gpus(Topology& topology, int node, const NvmlFunctions& nvml);

}  // namespace banyan
