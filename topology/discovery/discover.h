// Finds out what this machine is: processors from hwloc or sysfs, PCI, RDMA and network devices
// from sysfs, GPUs from NVML and CUDA. Nothing is measured.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/base/cuda_driver.h"
#include "topology/discovery/nvml.h"
#include "topology/discovery/sysfs.h"
#include "topology/topology.h"

namespace banyan {

// Discovers one node. Where files are missing (a container that masks /sys, an empty root) there is
// less of it, down to a node with its name; that is no error. `nvml` and `open_cuda` may be null,
// and the latter is called only where NVML leaves something out.
Result<Topology> discover(const SysRoot& root, const NvmlFunctions* nvml,
                          const std::function<std::optional<CudaFunctions>()>& open_cuda = {});

// Discovers this host, or the tree below BANYAN_SYSROOT, whose GPUs no driver knows.
// kInvalidArgument where that is no folder.
Result<Topology> discover(const std::string& root);

}  // namespace banyan
