// The one place that includes tinyxml2.h.
// SPDX-License-Identifier: Apache-2.0

#include "topology/xml.h"

#include <fmt/format.h>
#include <tinyxml2.h>

#include "src/base/parse.h"

namespace banyan {

namespace {

// hwloc nests caches, cores and bridges; PCI has at most 256 buses.
constexpr int kMostDepth = 300;

Status wrong(int line, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", line, what)};
}

// Recursion ends at kMostDepth.
Status copy(const tinyxml2::XMLElement& from, int depth, XmlElement* to) {
  if (depth > kMostDepth)
    return wrong(from.GetLineNum(), fmt::format("nested more than {} deep", kMostDepth));
  to->name = from.Name();
  to->line = from.GetLineNum();
  for (const auto* attribute = from.FirstAttribute(); attribute != nullptr;
       attribute = attribute->Next())
    to->attributes.emplace_back(attribute->Name(), attribute->Value());
  for (const auto* child = from.FirstChildElement(); child != nullptr;
       child = child->NextSiblingElement())
    BANYAN_TRY(copy(*child, depth + 1, &to->children.emplace_back()));
  return {};
}

}  // namespace

Result<XmlElement> parse_xml(std::string_view text) {
  tinyxml2::XMLDocument document;
  if (document.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS)
    return wrong(
        document.ErrorLineNum(),
        fmt::format("not XML: {}", tinyxml2::XMLDocument::ErrorIDToName(document.ErrorID())));
  for (const auto* node = document.FirstChild(); node != nullptr; node = node->NextSibling())
    if (node->ToUnknown() != nullptr &&
        std::string_view(node->Value()).find("ENTITY") != std::string_view::npos)
      return wrong(node->GetLineNum(), "declares entities; right is a file without them");
  if (document.RootElement() == nullptr) return wrong(1, "XML without an element");
  XmlElement root;
  BANYAN_TRY(copy(*document.RootElement(), 1, &root));
  return root;
}

}  // namespace banyan
