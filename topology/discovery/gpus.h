// What NVML and CUDA say of GPUs, joined by bus id with what PCI says.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/cuda_driver.h"
#include "topology/discovery/nvml.h"
#include "topology/topology.h"

namespace banyan {

// Completes the GPUs of a node: number, model, UUID, memory, partitions, NVLinks, and a GPU that
// PCI did not show. What a call refuses stays as it was. False where NVML itself refuses to begin.
bool add_nvml_gpus(Topology& topology, int node, const NvmlFunctions& nvml);
// Does the same by CUDA, where NVML has left something out: a container may have CUDA's driver and
// not NVML, and no /sys. No context is made. But cuInit() takes its time, and a process that has
// called it has no CUDA in children that it forks; so only then.
void add_cuda_gpus(Topology& topology, int node, const CudaFunctions& cuda);

constexpr int kMostGpus = 1024;  // of one node
// Makes text of characters that may lack their end.
std::string text_in(std::span<const char> characters);
// 10 times major and minor; 0 of what is none.
int capability_of(int major, int minor);
// The GPU of that function, or a new one.
int gpu_at(Topology& topology, int node, const std::string& bus_id);
// By the drivers' numbers, which users know; GPUs without one come behind.
void name_gpus(Topology& topology, int node);

}  // namespace banyan
