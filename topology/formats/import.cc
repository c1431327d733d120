// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/import.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/base/parse.h"
#include "topology/formats/hwloc_machine.h"
#include "topology/formats/json.h"

namespace banyan {

namespace {

constexpr std::string_view kFormats =
    "Banyan's JSON, XML of hwloc, NCCL or RCCL, the output of ibnetdiscover, or Slurm's "
    "topology.conf";

Result<Topology> import_xml(std::string_view text, Notes& notes) {
  const auto root = parse_xml(text);
  if (!root.ok()) return root.status();
  if (root->name == "system") return read_nccl_system(*root, notes);
  if (root->name == "graphs") return read_nccl_graphs(*root);
  if (root->name != "topology")
    return Status(Code::kInvalidArgument,
                  fmt::format("line {}: <{}> begins no machine; right are <topology> (hwloc), "
                              "<system> and <graphs> (NCCL, RCCL)",
                              root->line, printable(root->name.substr(0, 40))));
  const std::string* version = root->find("version");
  if (version != nullptr && !version->starts_with("2.") && !version->starts_with("1."))
    return Status(Code::kInvalidArgument,
                  fmt::format("line {}: hwloc's XML is of version {}; right are 1 and 2, which "
                              "`lstopo --export-xml-flags v2 FILE.xml` writes",
                              root->line, printable(version->substr(0, 40))));
  return read_hwloc_xml(*root, notes);
}

// The first line that is neither empty nor a comment.
std::string_view first_words(std::string_view text) {
  for (const std::string_view line : split(text.substr(0, 65536), '\n'))
    if (!trim(line).empty() && trim(line).front() != '#') return trim(line);
  return {};
}

bool begins_with(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  return std::equal(lower_case.begin(), lower_case.end(), text.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

// Names another Unicode form than UTF-8 by its byte order mark; empty: there is no such mark.
// UTF-32's marks begin as UTF-16's.
std::string_view foreign_mark(std::string_view text) {
  using std::string_view_literals::operator""sv;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "UTF-16";
  return {};
}

Result<Topology> import_any(std::string_view text, Notes& notes) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // what Windows begins UTF-8 with
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  if (const std::string_view form = foreign_mark(text); !form.empty())
    return Status(Code::kInvalidArgument,
                  fmt::format("line 1: begins with a byte order mark of {}; right is UTF-8", form));
  if (text.starts_with("\x1f\x8b"))
    return Status(Code::kInvalidArgument,
                  "line 1: compressed by gzip; right is the file itself (zcat FILE.gz > FILE)");
  const std::string_view body = trim(text);
  if (body.starts_with('{') || body.starts_with('[')) return from_json(text);
  if (body.starts_with('<')) return import_xml(text, notes);
  const std::string_view words = first_words(text);
  if (begins_with(words, "switchname") && trim(words.substr(10)).starts_with('='))
    return read_slurm_topology(text);
  for (const char* start : {"vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=",
                            "switch\t", "switch ", "ca\t", "ca "})
    if (begins_with(words, start)) return read_ibnetdiscover(text, notes);
  return Status(Code::kInvalidArgument,
                fmt::format("line 1: {}; right is {}",
                            body.empty() ? "the file is empty" : "not a machine", kFormats));
}

Result<Topology> import_named(const std::string& name, const Result<std::string>& text,
                              Notes* notes) {
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", printable(name), status.message()));
  };
  if (!text.ok()) return named(text.status());
  Notes found;
  auto topology = import_any(*text, found);
  if (!topology.ok()) return named(topology.status());
  if (notes != nullptr)
    for (const std::string& note : found.lines())
      notes->add(fmt::format("{}: {}", printable(name), note));
  return topology;
}

}  // namespace

Status wrong_line(size_t line, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", line, what)};
}

Result<Topology> import_topology(std::string_view text, Notes* notes) {
  Notes unread;
  return import_any(text, notes == nullptr ? unread : *notes);
}

Result<Topology> import_topology_file(const std::string& path, Notes* notes) {
  return import_named(path, read_file(path, kMostFileBytes), notes);
}

Result<Topology> import_topology_input(const std::string& path, Notes* notes) {
  return import_named(path == "-" ? "standard input" : path, read_to_end(path, kMostFileBytes),
                      notes);
}

}  // namespace banyan
