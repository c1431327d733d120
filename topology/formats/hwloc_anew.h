// hwloc's XML as hwloc gets it: written anew from the elements that were checked.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "banyan/status.h"
#include "topology/formats/xml.h"
#include "topology/notes.h"

namespace banyan {

// hwloc has two parsers, and neither reads a text as ours does: DOCTYPEs, namespaces, encodings,
// comments and empty attributes are something else to each. So it gets a text of what was read
// alone: objects, their infos and matrices, in the subset of XML that all understand.
//
// Devices that hwloc would leave out are left out here, each with a note. kInvalidArgument "line N:
// ..." tells of
//
//   elements and names that hwloc's files have not
//   matrices that are not as large as they say, larger than the file has objects, or have an object
//   twice
Result<std::string> hwloc_anew(const XmlElement& root, Notes& notes);

}  // namespace banyan
