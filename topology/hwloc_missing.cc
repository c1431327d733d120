// Built where hwloc is not.
// SPDX-License-Identifier: Apache-2.0

#include "topology/hwloc_machine.h"

namespace banyan {

std::optional<Processors> hwloc_processors() {
  return std::nullopt;
}

Result<Topology> read_hwloc_xml(std::string_view /*text*/) {
  return Status(Code::kUnsupported, "hwloc's XML needs a build with hwloc (Debian: libhwloc-dev)");
}

}  // namespace banyan
