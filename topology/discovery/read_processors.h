// The processors and memories of this node, as Linux describes them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/discovery/sysfs.h"
#include "topology/processors.h"

namespace banyan {

// From sysfs and /proc. Without them: what the affinity mask says, where the root is the real one.
Processors read_processors(const SysRoot& root);
// Gives the only NUMA domain all memory of the host. Kernels that put memory to use later, as those
// of some virtual machines do, count in a domain no more than what is in use by now.
void complete_memory(const SysRoot& root, Processors& processors);

}  // namespace banyan
