// The processors of this host, as a figure that was measured on them needs them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace banyan {

// "AMD EPYC 9B14", of /proc/cpuinfo; empty where that does not say.
std::string processor_model();
// Counts the cores of the machine, whatever this process is bound to; at least 1.
int online_cores();
// That this thread may run on; one where the kernel does not say.
std::vector<int> usable_cores();

}  // namespace banyan
