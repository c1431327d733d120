// SPDX-License-Identifier: Apache-2.0

#include "bench/choices/rows.h"

#include <fmt/core.h>

#include <cstdlib>
#include <utility>

#include "algorithms/algorithms.h"
#include "src/base/parse.h"

namespace banyan::choices {

std::string_view name_of(Medium medium) {
  switch (medium) {
    case Medium::kMemory: return "memory";
    case Medium::kSharedCores: return "shared_cores";
    case Medium::kCrowdedCores: return "crowded_cores";
    case Medium::kNetwork: return "network";
    case Medium::kLoopback: return "loopback";
  }
  return "";
}

std::string text_of(const Kind& kind) {
  std::string text(name_of(kind.collective));
  if (kind.type != DataType::kFloat32) text += fmt::format(":{}", name_of(kind.type));
  return text;
}

Result<Kind> parse_kind(std::string_view text) {
  const size_t colon = text.find(':');
  const auto collective = parse_collective(text.substr(0, colon));
  BANYAN_TRY(collective.status());
  if (colon == std::string_view::npos) return Kind{*collective};
  const auto type = parse_data_type(text.substr(colon + 1));
  BANYAN_TRY(type.status());
  return Kind{*collective, *type};
}

namespace {

Result<std::vector<int>> read_hosts(std::string_view text, int ranks) {
  std::vector<int> hosts;
  for (const std::string_view word : split(text, '.')) {
    const auto host = parse_integer(word, 0, ranks - 1);
    BANYAN_TRY(host.status());
    hosts.push_back(static_cast<int>(*host));
  }
  if (static_cast<int>(hosts.size()) == ranks) return hosts;
  return Status(Code::kInvalidArgument,
                fmt::format("hosts of {} ranks; right are {}", hosts.size(), ranks));
}

}  // namespace

Result<std::vector<Point>> read_points(std::string_view text) {
  std::vector<Point> points;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    const auto wrong = [&](std::string_view what) {
      return Status(Code::kInvalidArgument, fmt::format("line {}: {}", number, what));
    };
    const auto words = split(line, ',');
    if (words.size() < 6) return wrong("not kind,ranks,medium,bytes,algorithm,us");
    const auto kind = parse_kind(words[0]);
    const auto ranks = parse_integer(words[1], 2, 1 << 16);
    const auto bytes = parse_size(words[3]);
    const int algorithm = find_algorithm(words[4]);
    for (const Status& status : {kind.status(), ranks.status(), bytes.status()})
      if (!status.ok()) return wrong(status.message());
    if (algorithm < 0) return wrong("an algorithm that is not known");
    Point point;
    point.problem.collective = kind->collective;
    point.problem.type = kind->type;
    point.problem.count = *bytes / point.problem.element();
    point.ranks = static_cast<int>(*ranks);
    for (const Medium medium : {Medium::kMemory, Medium::kSharedCores, Medium::kCrowdedCores,
                                Medium::kNetwork, Medium::kLoopback})
      if (name_of(medium) == words[2]) point.medium = medium;
    if (point.medium == Medium::kNetwork) {
      auto hosts = read_hosts(words.size() > 8 ? words[8] : "", point.ranks);
      if (!hosts.ok()) return wrong(hosts.status().message());
      point.hosts = std::move(*hosts);
    }
    if (points.empty() || points.back().problem != point.problem ||
        points.back().ranks != point.ranks || points.back().hosts != point.hosts)
      points.push_back(point);
    points.back().entries.push_back({algorithm, std::atof(std::string(words[5]).c_str())});
  }
  return points;
}

}  // namespace banyan::choices
