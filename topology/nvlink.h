// What the makers' data sheets say of NVLinks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "topology/topology.h"

namespace banyan {

// Gives the GB/s each direction of one NVLink of NVML's version number, which is none of NVLink's:
// NVLink 1, 2 and 2.2, 3 and 3.1, 4, 5 (facts of the makers' data sheets). Unknown for others.
Figure nvlink_bandwidth(unsigned nvml_version);
// The same by CUDA's compute capability, 10 times major and minor: 80.
Figure nvlink_of_capability(int64_t capability);
std::string nvlink_name(unsigned nvml_version);  // "NVLink 3"; "NVLink" for others

}  // namespace banyan
