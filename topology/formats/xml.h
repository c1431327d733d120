// An XML text as a tree of elements that know their lines.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/status.h"

namespace banyan {

struct XmlElement {
  std::string name{};
  int line = 1;
  // Each of another name. The values are printable().
  std::vector<std::pair<std::string, std::string>> attributes{};
  std::string text{};  // right in it; of an element with others in it nobody reads any
  std::vector<XmlElement> children{};

  // Null: it has no such attribute.
  const std::string* find(std::string_view attribute) const;
};

// kInvalidArgument "line N: ...", where the element begins.
Status wrong_element(const XmlElement& element, std::string_view what);

// Parses the outermost element. It fails with
//
//   kUnsupported                    the build is without an XML parser
//   kInvalidArgument "line N: ..."  it is not well-formed, is nested too deep, has too many
//                                   attributes or one twice, or declares entities, which no
//                                   description of a machine needs
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace banyan
