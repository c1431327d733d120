// What hwloc knows. A build without it has these functions, too, and they say so.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "topology/formats/xml.h"
#include "topology/notes.h"
#include "topology/processors.h"
#include "topology/topology.h"

namespace banyan {

// Gives the processors of this machine that this process may use; nothing in a build without hwloc,
// or where hwloc fails.
std::optional<Processors> hwloc_processors();

// Reads a machine described by hwloc's XML, version 1 or 2, of which `root` is the outermost
// element. Devices that are left out get a note each.
//
//   kUnsupported                    the build is without hwloc
//   kInvalidArgument "line N: ..."  hwloc would not take it
Result<Topology> read_hwloc_xml(const XmlElement& root, Notes& notes);

}  // namespace banyan
