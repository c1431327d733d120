// How many descriptors this process may still open, for what takes many of them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

// kSystem, with the numbers: this process may not open so many descriptors more, which `what`
// takes ("a split among 3 ranks"). Its limit stays as it is, since it is the program's: children
// inherit it, and who calls select() counts on it.
Status require_descriptors(size_t count, std::string_view what);

}  // namespace banyan
