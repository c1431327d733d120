// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/hwloc_text.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "src/base/markup.h"
#include "src/base/parse.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

}  // namespace

std::string hwloc_bitmap(const CpuSet& set) {
  const std::string mask = set.mask();
  std::string text;
  bool first = true;
  for (const std::string_view group : split(mask, ',')) {
    if (!std::exchange(first, false)) text += ',';
    if (group != "00000000") fmt::format_to(Out(text), "0x{}", group);
  }
  return text.empty() || text.back() == ',' ? text + "0x0" : text;
}

HwlocText::HwlocText()
    : text_(
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
          "<topology version=\"2.0\">\n") {}

int HwlocText::begin(std::string_view type) {
  text_.append(2 * depth_, ' ');
  fmt::format_to(Out(text_), "<object type=\"{}\" gp_index=\"{}\"", type, ++objects_);
  return objects_;
}

void HwlocText::attribute(std::string_view name, std::string_view value) {
  fmt::format_to(Out(text_), " {}=\"{}\"", name, escape_markup(value));
}

void HwlocText::attribute(std::string_view name, uint64_t value) {
  fmt::format_to(Out(text_), " {}=\"{}\"", name, value);
}

void HwlocText::open() {
  text_ += ">\n";
  ++depth_;
}

void HwlocText::close() {
  --depth_;
  text_.append(2 * depth_, ' ');
  text_ += "</object>\n";
}

void HwlocText::end() {
  text_ += "/>\n";
}

void HwlocText::info(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  text_.append(2 * depth_, ' ');
  fmt::format_to(Out(text_), "<info name=\"{}\" value=\"{}\"/>\n", name, escape_markup(value));
}

// Lists as "10 21 21 10 ", with the number of their bytes, as hwloc reads them.
void HwlocText::matrix(std::string_view element, std::string_view name, std::string_view attributes,
                       const std::vector<std::string>& objects,
                       const std::vector<std::vector<uint64_t>>& values) {
  const auto list = [&](std::string_view kind, const std::string& text) {
    fmt::format_to(Out(text_), "    <{0} length=\"{1}\">{2}</{0}>\n", kind, text.size(), text);
  };
  fmt::format_to(Out(text_), "  <{} nbobjs=\"{}\" name=\"{}\" {}>\n", element, objects.size(), name,
                 attributes);
  std::string indexes;
  for (const std::string& object : objects) indexes += object + ' ';
  list("indexes", indexes);
  for (const auto& row : values) {
    std::string text;
    for (const uint64_t value : row) fmt::format_to(Out(text), "{} ", value);
    list("u64values", text);
  }
  fmt::format_to(Out(text_), "  </{}>\n", element);
}

std::string HwlocText::finish() {
  return std::move(text_) + "</topology>\n";
}

}  // namespace banyan
