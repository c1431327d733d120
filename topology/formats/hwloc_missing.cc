// Built where hwloc is not.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include "topology/formats/hwloc_machine.h"

namespace banyan {

std::optional<Processors> hwloc_processors() {
  return std::nullopt;
}

Result<Topology> read_hwloc_xml(const XmlElement& root, Notes& /*notes*/) {
  return Status(Code::kUnsupported,
                fmt::format("line {}: hwloc's XML needs a build with hwloc (Debian: libhwloc-dev)",
                            root.line));
}

}  // namespace banyan
