// The processors and memories of one node are listed by whoever finds them, and become vertices.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "topology/cpu_set.h"
#include "topology/topology.h"

namespace banyan {

struct ProcessorPart {
  int index = -1;       // the system's number
  CpuSet cpus{};        // all of it, also what we may not use
  uint64_t memory = 0;  // bytes
};

struct Processors {
  CpuSet allowed{};
  std::vector<CpuSet> cores{};  // the processors of each core: more than one with SMT
  std::vector<ProcessorPart> packages{};
  std::vector<ProcessorPart> numas{};
  std::vector<ProcessorPart> caches{};           // L3
  std::vector<std::vector<double>> distances{};  // of `numas`, as the firmware says; may be empty
  std::string vendor{};                          // "AuthenticAMD"
  std::string model{};                           // "AMD EPYC 9654 96-Core Processor"
  int family = -1;
  int model_number = -1;
};

// Packages and caches without a processor that we may use are left out; NUMA domains stay, since
// devices and memory are at them. The bandwidth between domains is NCCL's table by model.
void add_processors(Topology& topology, int node, const Processors& processors);

// The vertex of the NUMA domain with that number; the node where there is none.
int numa_vertex(const Topology& topology, int node, int index);

// Gives the GB/s between packages, by CPUID vendor, family and model (NCCL 2.30, graph/topo.h);
// unknown for others.
Figure interconnect_bandwidth(const std::string& vendor, int family, int model);

}  // namespace banyan
