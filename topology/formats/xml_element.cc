// What needs no parser.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include "topology/formats/xml.h"

namespace banyan {

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

Status wrong_element(const XmlElement& element, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", element.line, what)};
}

}  // namespace banyan
