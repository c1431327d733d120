// banyan_info: what this build is and has, every variable, and what a collective would do.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/print.h"
#include "bench/info/options.h"
#include "bench/info/show.h"
#include "bench/launched.h"
#include "bench/machine.h"
#include "bench/output.h"
#include "src/base/environment.h"
#include "src/base/parse.h"
#include "src/c_api/inspect.h"

namespace banyan::info {

namespace {

#ifdef __clang__
constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif

void print_build(const Options& options, Output& output) {
  const Build build{.version = version_text(),
                    .compiler = std::string(kCompiler),
                    .features = BANYAN_BUILD_FEATURES};
  const auto transports = transport_states();
  output.print(options.form == Form::kJson ? show_build_json(build, transports, this_machine())
                                           : show_build(build, transports, this_machine()));
}

void print_environment(const Options& options, Output& output) {
  const RawEnvironment raw = RawEnvironment::of_process();
  std::fputs(show_wrong_variables(raw).c_str(), stderr);
  output.print(options.form == Form::kJson ? show_environment_json(raw) : show_environment(raw));
}

void tell(const Notes& notes) {
  for (const std::string& note : notes.lines())
    std::fputs(fmt::format("banyan_info: {}\n", printable(note)).c_str(), stderr);
}

Status print_topology(const Options& options, Output& output) {
  const RawEnvironment raw = RawEnvironment::of_process();
  Notes notes;
  const auto topology = topology_of(options, raw, &notes);
  if (!topology.ok()) return topology.status();
  (void)used_of(*topology, raw, &notes);
  tell(notes);
  const auto text = show_topology(*topology, options.form);
  if (!text.ok()) return text.status();
  output.print(*text);
  return {};
}

Status print_explanation(const Options& options, Output& output) {
  Notes notes;
  const auto explained = explain_call(options, RawEnvironment::of_process(), &notes);
  if (!explained.ok()) return explained.status();
  tell(notes);
  output.print(options.form == Form::kJson ? show_explanation_json(*explained)
                                           : show_explanation(*explained));
  return {};
}

// Whether the host is healthy.
Result<bool> print_diagnosis(const Options& options, Output& output) {
  const auto diagnosis = diagnose_host(RawEnvironment::of_process(), transport_states());
  BANYAN_TRY(diagnosis.status());
  output.print(options.form == Form::kJson ? show_diagnosis_json(*diagnosis)
                                           : show_diagnosis(*diagnosis));
  return diagnosis->healthy();
}

int failed(const Status& status) {
  std::fputs(fmt::format("banyan_info: {}\n", printable(status.message())).c_str(), stderr);
  return 1;
}

constexpr size_t kMostDrawnSteps = 1000;

Status draw_schedule(const ScheduleRequest& request, Form form, Output& output) {
  const std::vector<int> ranks = ranks_of(request);
  std::vector<Schedule> schedules;
  size_t steps = 0;
  for (const int rank : ranks) {
    schedules.push_back(schedule_of(request, rank));
    steps += schedules.back().steps.size();
  }
  if (form == Form::kDot) {
    output.print(to_dot(schedules, ranks));
    return {};
  }
  if (steps > kMostDrawnSteps)
    return {Code::kInvalidArgument,
            fmt::format("{} steps are more than a picture shows; right are at most {}: draw fewer "
                        "ranks or one, or leave out --svg",
                        steps, kMostDrawnSteps)};
  output.print(to_svg(schedules, ranks, schedule_title(request)));
  return {};
}

// Rank by rank: a thousand of them make millions of steps.
Status print_schedule(const ScheduleRequest& request, Form form, Output& output) {
  if (form == Form::kDot || form == Form::kSvg) return draw_schedule(request, form, output);
  const bool json = form == Form::kJson;
  output.print(json ? schedule_json_begin(request) : schedule_header(request));
  std::string_view separator;
  for (const int rank : ranks_of(request)) {
    if (!output.has_reader()) return {};
    const Schedule schedule = schedule_of(request, rank);
    if (json) {
      output.print(separator);
      output.print(schedule_json(schedule, rank));
      separator = ",\n";
    } else {
      output.print(to_text(schedule, rank));
    }
  }
  if (json) output.print(schedule_json_end());
  return {};
}

int run(int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(argc, argv);
  Output output("banyan_info");
  if (!line.options && line.status != 0)
    return refuse_once(line.status, line.text, RawEnvironment::of_process());
  if (!line.options) {
    output.print(line.text);
  } else if (line.options->environment) {
    print_environment(*line.options, output);
  } else if (line.options->topology || line.options->explain) {
    const Status status = line.options->topology ? print_topology(*line.options, output)
                                                 : print_explanation(*line.options, output);
    if (!status.ok()) return failed(status);
  } else if (line.options->doctor) {
    const Result<bool> healthy = print_diagnosis(*line.options, output);
    if (!healthy.ok()) return failed(healthy.status());
    const int written = output.finish();
    return *healthy ? written : 1;
  } else if (line.options->schedule) {
    const Status status = print_schedule(*line.options->schedule, line.options->form, output);
    if (!status.ok()) return failed(status);
  } else {
    print_build(*line.options, output);
  }
  return output.finish();
}

}  // namespace

}  // namespace banyan::info

int main(int argc, char** argv) {
  banyan::guard_standard_streams();
  try {
    return banyan::info::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("banyan_info: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
