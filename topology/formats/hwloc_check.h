// What hwloc takes on trust in its XML, checked before it sees the file.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "banyan/status.h"
#include "topology/formats/xml.h"

namespace banyan {

// What an <object> is, as far as it is told apart here.
enum class HwlocKind : uint8_t {
  kOther,
  kPciDevice,
  kPciBridge,
  kAccelerator,  // an OS device that is a GPU or a coprocessor
};
HwlocKind hwloc_kind(const XmlElement& object);

// Fails with kInvalidArgument "line N: ..." where hwloc 2.9 would compare sets that are missing,
// end the process, or tell stderr of what is out of order or lacks memory. Only its environment
// would silence it, which is the process's.
Status check_hwloc_xml(const XmlElement& root);

}  // namespace banyan
