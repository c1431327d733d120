// What needs no parser.
// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/xml.h"

namespace banyan {

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

}  // namespace banyan
