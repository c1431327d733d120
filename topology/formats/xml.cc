// The one place that includes tinyxml2.h.
// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/xml.h"

#include <fmt/core.h>
#include <tinyxml2.h>

#include <algorithm>
#include <array>

#include "src/base/parse.h"

namespace banyan {

namespace {

// hwloc nests caches, cores and bridges. Its own parser ends at 256.
constexpr int kMostDepth = 250;
constexpr int kMostAttributes = 1000;

Status wrong(int line, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", line, what)};
}

// Finds where an element begins that has more attributes than any should; npos: none has. tinyxml2
// would take time by the square of their number, since it compares each with all before it.
size_t crowded_tag(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOthers = {
      {{"<?", "?>"}, {"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<!", ">"}}};
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const auto* const other = std::find_if(kOthers.begin(), kOthers.end(), [&](const auto& each) {
      return text.substr(at).starts_with(each.first);
    });
    if (other != kOthers.end()) {
      at = text.find(other->second, at);
      continue;
    }
    const size_t begin = at;
    int values = 0;
    for (at = text.find_first_of("'\">", at); at != std::string_view::npos && text[at] != '>';
         at = text.find_first_of("'\">", at + 1)) {
      if (++values > kMostAttributes) return begin;
      at = text.find(text[at], at + 1);
      if (at == std::string_view::npos) break;
    }
  }
  return std::string_view::npos;
}

// Recursion ends at kMostDepth.
Status copy(const tinyxml2::XMLElement& from, int depth, XmlElement* to) {
  if (depth > kMostDepth)
    return wrong(from.GetLineNum(), fmt::format("nested more than {} deep", kMostDepth));
  to->name = from.Name();
  to->line = from.GetLineNum();
  for (const auto* attribute = from.FirstAttribute(); attribute != nullptr;
       attribute = attribute->Next())
    to->attributes.emplace_back(attribute->Name(), printable(attribute->Value()));
  for (const auto* node = from.FirstChild(); node != nullptr; node = node->NextSibling())
    if (node->ToText() != nullptr) to->text += node->Value();
  for (const auto* child = from.FirstChildElement(); child != nullptr;
       child = child->NextSiblingElement())
    BANYAN_TRY(copy(*child, depth + 1, &to->children.emplace_back()));
  return {};
}

}  // namespace

Result<XmlElement> parse_xml(std::string_view text) {
  if (const auto begin = crowded_tag(text); begin != std::string_view::npos)
    return wrong(1 + static_cast<int>(std::count(text.begin(), text.begin() + begin, '\n')),
                 fmt::format("an element of more than {} attributes", kMostAttributes));
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
