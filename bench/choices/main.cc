// Measures every algorithm of some collectives, and judges choices by that. bench/select makes
// tables of it.
//
// usage: choices measure RANKS KIND,... BYTES,... FIRST
//                                  RANKS 0: those that a launcher has started; FIRST: the number
//                                  of the algorithm that begins
//        choices predict RANKS KIND,... BYTES,...
//                                  the predictions of a communicator beside what its calls take
//        choices judge FILE...     medians of what was measured on stdin; on stdout the choices of
//        each point:
//                                  the default, the model's, and what calls get with the tuning
//                                  files, joined: by their rules, then by their links
//        choices fit STEPS SEED    the same on stdin; figures for algorithms/choice/machine_cost.cc
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/choice/machine_cost.h"
#include "algorithms/cost/cost.h"
#include "algorithms/cost/measured_links.h"
#include "bench/choices/fit.h"
#include "bench/choices/measure.h"
#include "src/base/parse.h"
#include "src/tuning/tuning_file.h"

namespace banyan::choices {
namespace {

Result<Plan> plan_of(std::span<const std::string_view> words) {
  Plan plan;
  const auto ranks = parse_integer(words[0], 0, 256);
  BANYAN_TRY(ranks.status());
  if (*ranks == 1) return Status(Code::kInvalidArgument, "1 rank has nothing to choose");
  plan.ranks = static_cast<int>(*ranks);
  for (const std::string_view word : split(words[1], ',')) {
    const auto kind = parse_kind(word);
    BANYAN_TRY(kind.status());
    plan.kinds.push_back(*kind);
  }
  for (const std::string_view word : split(words[2], ',')) {
    const auto bytes = parse_size(word);
    BANYAN_TRY(bytes.status());
    plan.sizes.push_back(*bytes);
  }
  if (words.size() > 3) {
    const auto first = parse_integer(words[3], 0, 1000);
    BANYAN_TRY(first.status());
    plan.first = static_cast<int>(*first);
  }
  return plan;
}

std::string standard_input() {
  std::string text;
  char buffer[1 << 16];
  size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) text.append(buffer, got);
  return text;
}

double time_of(const Point& point, int algorithm) {
  for (const Entry& entry : point.entries)
    if (entry.algorithm == algorithm) return entry.us;
  return std::numeric_limits<double>::infinity();
}

struct Tuned {
  Rules rules;
  MeasuredLinks links;
  int cores = 1;  // where they were measured
};

// The rules of all files, in that order; the links of the first that has some between hosts.
Result<Tuned> tuned_by(std::span<const std::string_view> paths) {
  Tuned tuned;
  std::string table;
  for (const std::string_view path : paths) {
    const auto file = read_tuning_file(std::string(path));
    BANYAN_TRY(file.status());
    if (!file->rules.empty()) table += (table.empty() ? "" : "; ") + file->table();
    if (tuned.links.between) continue;
    tuned.links = file->links;
    tuned.cores = file->tuned_on.cores;
  }
  auto rules = parse_table(table);
  BANYAN_TRY(rules.status());
  tuned.rules = std::move(*rules);
  return tuned;
}

const Entry& least_of(const Point& point, const std::function<double(const Entry&)>& value) {
  return *std::min_element(point.entries.begin(), point.entries.end(),
                           [&](const Entry& a, const Entry& b) { return value(a) < value(b); });
}

// Prints
// collective,ranks,medium,bytes,best,best_us,default,default_us,model,model_us,tuned,tuned_us.
// Where the model knows nothing: -,nan.
void judge(const std::vector<Point>& points, const Tuned& tuned) {
  for (const Point& point : points) {
    const auto name = [](int algorithm) {
      return algorithms()[static_cast<size_t>(algorithm)].name;
    };
    const auto hosts =
        point.hosts.empty() ? Hierarchy() : Hierarchy::of_labels("host", point.hosts);
    const Hierarchy levels = hosts.simplified();
    const auto network = measured_network(tuned.links, tuned.cores, hosts);
    const auto chosen = [&](const Rules& rules, const MeasuredNetwork* measured) {
      return choose(point.problem, point.ranks, point.medium, rules, &levels, measured).algorithm;
    };
    const Entry& best = least_of(point, [](const Entry& entry) { return entry.us; });
    std::string by_model = "-,nan";
    if (network || point.hosts.empty()) {
      const CostModel model = network ? network->model : memory_model(point.ranks, point.medium);
      const Entry& entry = least_of(point, [&](const Entry& each) {
        return predict(point.problem, each.algorithm, point.ranks, model, &hosts);
      });
      by_model = fmt::format("{},{:.3f}", name(entry.algorithm), entry.us);
    }
    const int by_default = chosen({}, nullptr);
    const int by_tuning = chosen(tuned.rules, network ? &*network : nullptr);
    std::fputs(
        fmt::format("{},{},{},{},{},{:.3f},{},{:.3f},{},{},{:.3f}\n",
                    text_of({point.problem.collective, point.problem.type}), point.ranks,
                    name_of(point.medium), point.problem.count * point.problem.element(),
                    name(best.algorithm), best.us, name(by_default), time_of(point, by_default),
                    by_model, name(by_tuning), time_of(point, by_tuning))
            .c_str(),
        stdout);
  }
}

void fit_all(const std::vector<Point>& points, int steps, uint64_t seed) {
  for (const Medium medium : {Medium::kMemory, Medium::kSharedCores, Medium::kCrowdedCores}) {
    std::vector<Point> mine;
    std::copy_if(points.begin(), points.end(), std::back_inserter(mine),
                 [&](const Point& point) { return point.medium == medium; });
    if (mine.empty()) continue;
    std::fputs(fmt::format("{}: {}\n", name_of(medium),
                           fit(mine, memory_model(mine.front().ranks, medium), steps, seed))
                   .c_str(),
               stdout);
  }
}

int refuse(std::string_view text) {
  std::fputs(fmt::format("choices: {}\n", text).c_str(), stderr);
  return 2;
}

int run(std::span<const std::string_view> words) {
  const std::string_view what = words.empty() ? std::string_view() : words.front();
  if (what == "measure" && words.size() == 5) {
    const auto plan = plan_of(words.subspan(1));
    return plan.ok() ? measure(*plan) : refuse(plan.status().message());
  }
  if (what == "predict" && words.size() == 4) {
    const auto plan = plan_of(words.subspan(1));
    return plan.ok() ? compare_predictions(*plan) : refuse(plan.status().message());
  }
  const bool fits_here = what == "fit" && words.size() == 3;
  if (!fits_here && what != "judge")
    return refuse(
        "usage: choices measure RANKS KIND,... BYTES,... FIRST | predict RANKS KIND,... BYTES,... "
        "| judge FILE... | fit STEPS SEED");
  const auto points = read_points(standard_input());
  if (!points.ok()) return refuse(points.status().message());
  if (!fits_here) {
    const auto tuned = tuned_by(words.subspan(1));
    if (!tuned.ok()) return refuse(tuned.status().message());
    judge(*points, *tuned);
    return 0;
  }
  const auto steps = parse_integer(words[1], 1, 10000000);
  const auto seed = parse_integer(words[2], 0, std::numeric_limits<int64_t>::max());
  for (const Status& status : {steps.status(), seed.status()})
    if (!status.ok()) return refuse(status.message());
  fit_all(*points, static_cast<int>(*steps), static_cast<uint64_t>(*seed));
  return 0;
}

}  // namespace
}  // namespace banyan::choices

int main(int argc, char** argv) {
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    return banyan::choices::run(words);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("choices: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
