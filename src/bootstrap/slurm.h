// What Slurm's variables say: host lists, and ports that a job's steps do not share. Pure.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"

namespace banyan {

// "a1" of "a[1-3,7],b", "n08" of "n[08-12]"; kInvalidArgument says where it is malformed.
Result<std::string> first_host(std::string_view node_list);

// Gives ports to meet at, the same on all ranks of a step, others for other steps: from the range,
// or above the ports that Linux gives out by itself.
std::vector<uint16_t> step_ports(uint64_t job, uint64_t step, const PortRange& range);

}  // namespace banyan
