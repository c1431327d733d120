// banyan_perf: measures collectives and messages as OSU's benchmarks do, and checks them.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launched.h"
#include "bench/output.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/run.h"
#include "bench/perf/team.h"
#include "src/base/environment.h"
#include "transports/transport.h"

namespace banyan::perf {

namespace {

constexpr int kUsage = 2;
constexpr int kCannotBeTriedHere = 77;

int fail(int status, std::string_view text) {
  if (!text.empty()) std::fputs(fmt::format("banyan_perf: {}\n", text).c_str(), stderr);
  return status;
}

// Options that stand for variables become variables, before there is a second thread.
void set_variables(const Options& options) {
  const auto set = [](const char* name, const std::string& value) {
    if (!value.empty()) ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  };
  set("BANYAN_ALGO", options.algorithm);
  set("BANYAN_TRANSPORTS", options.transports);
  set("BANYAN_COMPRESS", options.compress);
}

// What this version, build or machine lacks is no failure of the run.
bool something_is_missing(const RawEnvironment& raw, std::string* text) {
  const auto environment = parse_environment(raw);
  if (!environment.ok() && environment.status().code() == Code::kUnsupported) {
    *text = environment.status().message();
    return true;
  }
  const std::string* value = raw.find("BANYAN_TRANSPORTS");
  if (value == nullptr) return false;
  const auto parsed = parse_transports(*value);
  if (parsed.ok() || parsed.status().code() != Code::kUnsupported) return false;
  *text = fmt::format("BANYAN_TRANSPORTS={}: {}", *value, parsed.status().message());
  return true;
}

int run_under_launcher(const Options& options, const std::vector<std::string>& command,
                       const RawEnvironment& raw) {
  const auto launched = find_launched(raw);
  if (!launched.ok()) return fail(kUsage, launched.status().message());
  Options mine = options;
  if (launched->rank != 0) mine.csv = mine.json = "";
  auto report = Report::open(mine, invocation_of(command, launched->launcher, raw));
  const Outcome outcome = run_rank(options, nullptr, launched->place, report);
  return fail(outcome.status, outcome.status == 0 ? "" : outcome.text);
}

int run_here(const Options& options, const std::vector<std::string>& command,
             const RawEnvironment& raw) {
  auto report = Report::open(options, invocation_of(command, "banyan_perf", raw));
  if (!report.ok()) return fail(1, report.status().message());
  const auto team = Team::create(options.ranks);
  if (!team.ok()) return fail(1, team.status().message());
  const auto rank = (*team)->start();
  if (!rank.ok()) return fail(1, rank.status().message());
  if (*rank < 0) return (*team)->supervise();
  const Outcome outcome = run_rank(options, team->get(), *rank, report);
  if (outcome.status != 0) (*team)->leave_words(*rank, outcome.text);
  return outcome.status;
}

int run(int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(argc, argv);
  if (!line.options && line.status == 0) {
    Output output("banyan_perf");
    output.print(line.text);
    return output.finish();
  }
  if (!line.options) return refuse_once(line.status, line.text, RawEnvironment::of_process());
  set_variables(*line.options);
  const RawEnvironment raw = RawEnvironment::of_process();
  const int ranks = line.options->ranks;
  if (const std::string why = second_job(raw); ranks > 0 && !why.empty())
    return refuse_once(kUsage, fmt::format("banyan_perf: -n {}: {}\n", ranks, why), raw);
  if (std::string text; something_is_missing(raw, &text)) return fail(kCannotBeTriedHere, text);
  const std::vector<std::string> command(argv, argv + argc);
  return ranks > 0 ? run_here(*line.options, command, raw)
                   : run_under_launcher(*line.options, command, raw);
}

}  // namespace

}  // namespace banyan::perf

int main(int argc, char** argv) {
  banyan::guard_standard_streams();
  try {
    return banyan::perf::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("banyan_perf: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
