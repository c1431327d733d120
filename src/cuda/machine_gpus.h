// Tells whether a machine may have a GPU whose driver is CUDA's, without asking that driver.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace banyan {

// By the devices that the kernel shows below `root`, which is "/" but in tests: NVIDIA's on a PCI
// bus, and the names in /dev that its drivers give, which containers, Tegra and WSL have without
// a bus. A device that shows up later is not seen.
bool may_have_gpu(const std::string& root);

}  // namespace banyan
