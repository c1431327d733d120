// Built where tinyxml2 is not.
// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/xml.h"

namespace banyan {

Result<XmlElement> parse_xml(std::string_view /*text*/) {
  return Status(Code::kUnsupported,
                "line 1: XML needs a build with tinyxml2 (Debian: libtinyxml2-dev)");
}

}  // namespace banyan
