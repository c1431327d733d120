// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/hwloc_anew.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "src/base/markup.h"
#include "src/base/parse.h"
#include "topology/formats/hwloc_check.h"
#include "topology/pci.h"

namespace banyan {

namespace {

// libxml2 refuses values of more than 10 million bytes. The longest are sets of processors.
constexpr size_t kMostValueBytes = size_t{1} << 16;
constexpr size_t kMostListBytes = size_t{1} << 16;  // of a matrix, in one element
// Linux knows that many NUMA nodes. hwloc looks for the object of each row among all.
constexpr int64_t kMostRows = 1024;
constexpr uint32_t kMostDomain = 0xffff;  // hwloc's, as it is built

// hwloc's names have these letters: attributes the first ones, types in matrices the others.
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kTypes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

std::string start_of(std::string_view text) {
  return printable(text.substr(0, 80));
}

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

size_t objects_in(const XmlElement& element) {
  size_t count = element.name == "object" ? 1 : 0;
  for (const XmlElement& child : element.children) count += objects_in(child);
  return count;
}

// Reads the domain of a bus id in its normal form.
uint32_t domain_of(std::string_view bus_id) {
  uint32_t domain = 0;
  std::from_chars(bus_id.data(), bus_id.data() + bus_id.size(), domain, 16);
  return domain;
}

void names_in(const XmlElement& element, std::vector<std::string>* names) {
  for (const XmlElement& child : element.children) {
    const std::string* name = child.find("name");
    if (child.name == "object" && name != nullptr && !trim(*name).empty())
      names->push_back(start_of(trim(*name)));
    names_in(child, names);
  }
}

// Words of a list are apart by blanks of any kind.
template <typename Take>
Status for_each_word(const XmlElement& list, Take take) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::string_view text = list.text;
  for (size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    BANYAN_TRY(take(text.substr(at, end - at)));
    at = text.find_first_not_of(kSpaces, end);
  }
  return {};
}

bool is_number(std::string_view word) {
  uint64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  // hwloc takes a zero at the beginning for a number to the base of 8 or 16.
  return error == std::errc() && stopped == end && (word.size() == 1 || word.front() != '0');
}

class Rewriter {
 public:
  Rewriter(bool second, size_t objects, Notes& notes)
      : second_(second), objects_(objects), notes_(notes) {}

  Result<std::string> write(const XmlElement& root) {
    text_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology";
    if (const std::string* version = root.find("version"); version != nullptr) {
      if (!parse_integer(version->substr(2), 0, 99).ok())
        return wrong_element(
            root, fmt::format("version {}; right is one such as 2.0", start_of(*version)));
      text_ += fmt::format(" version=\"{}\"", *version);
    }
    text_ += '>';
    BANYAN_TRY(check_names(root));
    for (const XmlElement& child : root.children) {
      if (child.name == "object") BANYAN_TRY(write_object(child, false));
      if (child.name.starts_with("distances")) BANYAN_TRY(write_matrix(child));
    }
    text_ += "</topology>\n";
    if (text_.size() >= static_cast<size_t>(std::numeric_limits<int>::max()))
      return wrong_element(root, "larger than hwloc reads");
    return std::move(text_);
  }

 private:
  // A name of a namespace is one thing to a parser that knows these, and another to others.
  static Status check_names(const XmlElement& element) {
    if (element.name.find(':') != std::string::npos)
      return wrong_element(element, fmt::format("<{}>: hwloc's files have no names with a colon",
                                                start_of(element.name)));
    for (const auto& [name, value] : element.attributes) {
      if (name.find(':') != std::string::npos)
        return wrong_element(
            element, fmt::format("{}=: hwloc's files have no names with a colon", start_of(name)));
      if (value.size() > kMostValueBytes)
        return wrong_element(
            element, fmt::format("{}= of more than {} bytes", start_of(name), kMostValueBytes));
    }
    for (const XmlElement& child : element.children) BANYAN_TRY(check_names(child));
    return {};
  }

  // Without what hwloc knows none of and the empty ones, which one of its parsers does not see.
  void begin(const XmlElement& element, const std::string& bus_id = {}) {
    text_ += '<' + element.name;
    for (const auto& [name, value] : element.attributes) {
      if (value.empty() || name.find_first_not_of(kLetters) != std::string::npos) continue;
      if (name == "bridge_pci" && !is_bridged(value)) continue;
      const bool id = name == "pci_busid" && !bus_id.empty();
      text_ += fmt::format(" {}=\"{}\"", name, escape_markup(id ? bus_id : value));
    }
  }

  // "0000:[01-03]": the buses below a bridge. Where they are not, hwloc leaves out the bridge.
  static bool is_bridged(std::string_view text) {
    const size_t open = text.find(":[");
    const size_t dash = text.find('-');
    if (open == std::string_view::npos || dash == std::string_view::npos || dash < open ||
        !text.ends_with(']'))
      return false;
    const std::string first =
        fmt::format("{}:{}:0.0", text.substr(0, open), text.substr(open + 2, dash - open - 2));
    const std::string last = fmt::format("0:{}:0.0", text.substr(dash + 1, text.size() - dash - 2));
    const std::string normal = normal_bus_id(first);
    return !normal.empty() && !normal_bus_id(last).empty() && domain_of(normal) <= kMostDomain;
  }

  // Why hwloc would not have it; empty: it does.
  std::string refusal(const std::string* given, const std::string& bus_id) {
    if (given == nullptr) return "it has no pci_busid";
    if (bus_id.empty())
      return fmt::format("its pci_busid is '{}'; right is one such as 0000:0c:00.0",
                         start_of(*given));
    if (domain_of(bus_id) > kMostDomain)
      return fmt::format("hwloc takes no PCI domain beyond {:x}", kMostDomain);
    if (!bus_ids_.insert(bus_id).second) return "another device has its bus id";
    return {};
  }

  void note_lost(const XmlElement& device, std::string_view what, std::string_view why) {
    std::vector<std::string> names;
    names_in(device, &names);
    const std::string known = names.empty() ? "" : fmt::format(" ({})", listed(names));
    notes_.add(fmt::format("line {}: {}{} is left out: {}", device.line, what, known, why));
  }

  Status write_object(const XmlElement& object, bool on_pci) {
    const HwlocKind kind = hwloc_kind(object);
    std::string bus_id;
    if (kind == HwlocKind::kPciDevice || kind == HwlocKind::kPciBridge) {
      const std::string* given = object.find("pci_busid");
      if (given != nullptr) bus_id = normal_bus_id(*given);
      if (const std::string why = refusal(given, bus_id); !why.empty()) {
        const bool bridge = kind == HwlocKind::kPciBridge;
        note_lost(bridge ? XmlElement{.line = object.line} : object,
                  fmt::format("the PCI {}{}{}", bridge ? "bridge" : "device",
                              bus_id.empty() ? "" : " ", bus_id),
                  why);
        return bridge ? write_parts(object, on_pci) : Status();
      }
      on_pci = kind == HwlocKind::kPciDevice;
    } else if (kind == HwlocKind::kAccelerator && !on_pci) {
      const std::string* name = object.find("name");
      note_lost(object,
                name == nullptr || trim(*name).empty() ? "an OS device without a name"
                                                       : "the OS device " + start_of(trim(*name)),
                "it is on no PCI device");
    }
    begin(object, bus_id);
    const size_t before = text_.size();
    text_ += '>';
    BANYAN_TRY(write_parts(object, on_pci));
    if (text_.size() > before + 1) {
      text_ += "</object>";
    } else {
      text_.replace(before, 1, "/>");
    }
    return {};
  }

  // What nobody here reads is left out.
  Status write_parts(const XmlElement& object, bool on_pci) {
    for (const XmlElement& part : object.children) {
      if (part.name == "object") {
        BANYAN_TRY(write_object(part, on_pci));
      } else if (part.name == "info") {
        begin(part);
        text_ += "/>";
      } else if (part.name == "distances" && !second_) {
        BANYAN_TRY(check_latencies(part));
      } else if (!among(part.name, {"page_type", "userdata"})) {
        return wrong_element(part, fmt::format("<{}> in an <object>; right are <object> and <info>",
                                               start_of(part.name)));
      }
    }
    return {};
  }

  Result<size_t> rows_of(const XmlElement& matrix) const {
    const std::string* text = matrix.find("nbobjs");
    const auto rows = parse_integer(text == nullptr ? std::string_view() : *text, 1, kMostRows);
    if (!rows.ok())
      return wrong_element(matrix,
                           fmt::format("nbobjs of <{}>: {}", matrix.name, rows.status().message()));
    if (static_cast<size_t>(*rows) > objects_)
      return wrong_element(matrix, fmt::format("<{}> of {} rows; the file has {} objects",
                                               matrix.name, *rows, objects_));
    return static_cast<size_t>(*rows);
  }

  // Checks the matrices of version 1, which have no name, so that nobody asks for them.
  Status check_latencies(const XmlElement& matrix) const {
    const auto rows = rows_of(matrix);
    BANYAN_TRY(rows.status());
    const size_t right = *rows * *rows;
    if (matrix.children.size() != right)
      return wrong_element(matrix, fmt::format("<{}> of {} rows has {} values; right are {}",
                                               matrix.name, *rows, matrix.children.size(), right));
    return {};
  }

  Status write_matrix(const XmlElement& matrix) {
    if (!second_ || !among(matrix.name, {"distances2", "distances2hetero"}))
      return wrong_element(matrix, fmt::format("<{}> in <topology>; right are <distances2> and "
                                               "<distances2hetero> of version 2",
                                               start_of(matrix.name)));
    const auto rows = rows_of(matrix);
    BANYAN_TRY(rows.status());
    const size_t values = *rows * *rows;
    std::set<std::string_view> indexes;
    size_t found = 0;
    const auto take_index = [&](std::string_view word) -> Status {
      const size_t colon = word.find(':');
      const bool typed = colon != std::string_view::npos;
      const std::string_view number = typed ? word.substr(colon + 1) : word;
      const bool is_type =
          word.substr(0, typed ? colon : 0).find_first_not_of(kTypes) == std::string_view::npos;
      if (typed != (matrix.name == "distances2hetero") || !is_type || !is_number(number))
        return wrong_element(
            matrix, fmt::format("'{}' in <indexes> is no object's number", start_of(word)));
      if (!indexes.insert(number).second)
        return wrong_element(matrix,
                             fmt::format("object {} is in <indexes> twice", start_of(word)));
      return {};
    };
    const auto take_value = [&](std::string_view word) -> Status {
      ++found;
      if (is_number(word)) return {};
      return wrong_element(matrix, fmt::format("'{}' in <u64values> is no number", start_of(word)));
    };
    for (const XmlElement& list : matrix.children) {
      if (list.name == "indexes") {
        BANYAN_TRY(for_each_word(list, take_index));
      } else if (list.name == "u64values") {
        BANYAN_TRY(for_each_word(list, take_value));
      } else {
        return wrong_element(list, fmt::format("<{}> in <{}>; right are <indexes> and <u64values>",
                                               start_of(list.name), matrix.name));
      }
    }
    if (indexes.size() != *rows || found != values)
      return wrong_element(
          matrix, fmt::format("<{}> of {} rows has {} indexes and {} values; right are {} and {}",
                              matrix.name, *rows, indexes.size(), found, *rows, values));
    begin(matrix);
    text_ += '>';
    for (const std::string_view name : {"indexes", "u64values"}) write_lists(matrix, name);
    text_ += fmt::format("</{}>", matrix.name);
    return {};
  }

  // hwloc wants one blank behind each number, and none before the first.
  void write_lists(const XmlElement& matrix, std::string_view name) {
    std::string words;
    const auto flush = [&] {
      if (!words.empty())
        text_ += fmt::format("<{0} length=\"{1}\">{2}</{0}>", name, words.size(), words);
      words.clear();
    };
    for (const XmlElement& list : matrix.children) {
      if (list.name != name) continue;
      (void)for_each_word(list, [&](std::string_view word) {
        words.append(word).append(" ");
        if (words.size() >= kMostListBytes) flush();
        return Status();
      });
    }
    flush();
  }

  const bool second_;  // version 2
  const size_t objects_;
  Notes& notes_;
  std::string text_;
  std::set<std::string> bus_ids_;
};

}  // namespace

Result<std::string> hwloc_anew(const XmlElement& root, Notes& notes) {
  const std::string* version = root.find("version");
  const bool second = version != nullptr && version->starts_with("2.");
  return Rewriter(second, objects_in(root), notes).write(root);
}

}  // namespace banyan
