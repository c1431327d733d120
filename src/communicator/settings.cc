// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/settings.h"

#include <fmt/core.h>

#include "src/base/parse.h"
#include "src/base/process.h"
#include "src/base/standard_streams.h"
#include "src/bootstrap/launcher.h"
#include "transports/net_devices.h"
#include "transports/transport.h"

namespace banyan {
namespace {

constexpr size_t kMostName = 64;

Status named(std::string_view variable, std::string_view value, const Status& status) {
  constexpr size_t kMostShown = 200;
  return {status.code(), fmt::format("{}={}{}: {}", variable, value.substr(0, kMostShown),
                                     value.size() > kMostShown ? "..." : "", status.message())};
}

Result<AlgorithmVariable> algorithm_of(const std::string& text) {
  Result<AlgorithmVariable> read = parse_algorithm_variable(text);
  if (!read.ok()) return named("BANYAN_ALGO", text, read.status());
  return read;
}

Result<Compression> compression_of(const std::string& text) {
  Result<Compression> read = parse_compression(text);
  if (!read.ok()) return named("BANYAN_COMPRESS", text, read.status());
  return read;
}

Result<std::vector<int>> transports_of(std::string_view where, const std::string& text) {
  Result<std::vector<int>> transports = parse_transports(text);
  if (!transports.ok()) return named(where, text, transports.status());
  return transports;
}

}  // namespace

Result<Settings> make_settings(const Wishes& wishes, const RawEnvironment& raw, int rank) {
  Result<Environment> environment = parse_environment(raw);
  BANYAN_TRY(environment.status());

  Settings settings;
  settings.streams = hold_closed_streams();
  settings.environment = std::move(*environment);
  const Environment& values = settings.environment;
  settings.name = printable(std::string_view(wishes.name).substr(0, kMostName));
  settings.timeout_s = wishes.timeout_s > 0 ? wishes.timeout_s : values.timeout_s;
  if (wishes.timeout_s > 0) settings.timeout_from = "timeout_s of the communicator's configuration";
  settings.init_timeout_s =
      wishes.init_timeout_s > 0 ? wishes.init_timeout_s : values.init_timeout_s;
  settings.invariant = wishes.invariant;

  Result<AlgorithmVariable> algorithm = algorithm_of(values.algorithm);
  BANYAN_TRY(algorithm.status());
  settings.rules = std::move(algorithm->rules);
  settings.explain = algorithm->explain;

  const Result<Compression> compression = compression_of(values.compress);
  BANYAN_TRY(compression.status());
  // The variable's 'off' wins over all; whatever else it says, the configuration's word goes first.
  const std::string* variable = raw.find("BANYAN_COMPRESS");
  const bool off = variable != nullptr && !trim(*variable).empty() && compression->is_exact();
  settings.compression = off ? Compression() : wishes.compression.value_or(*compression);
  settings.has_ceiling = off || wishes.compression || !settings.compression.is_exact();

  const bool own = !wishes.transports.empty();
  Result<std::vector<int>> transports = own ? transports_of("transports", wishes.transports)
                                            : transports_of("BANYAN_TRANSPORTS", values.transports);
  BANYAN_TRY(transports.status());
  settings.transports = std::move(*transports);
  if (!values.net_devices.empty())
    BANYAN_TRY(choose_net_devices(values.net_devices, net_devices()).status());

  Result<Log> log = Log::open(values.debug, values.debug_file, rank);
  BANYAN_TRY(log.status());
  settings.log = settings.name.empty() ? std::move(*log) : log->of(settings.name);
  return settings;
}

Result<std::optional<TuningFile>> read_tuning(const Environment& values) {
  if (values.tune_file.empty()) return std::optional<TuningFile>();
  Result<TuningFile> file = read_tuning_file(values.tune_file);
  if (file.ok()) return std::optional<TuningFile>(std::move(*file));
  return Status(file.status().code(), fmt::format("BANYAN_TUNE_FILE={}", file.status().message()));
}

std::vector<Status> wrong_values(const RawEnvironment& raw) {
  auto [values, wrong] = read_environment(raw);
  for (const Status& status :
       {algorithm_of(values.algorithm).status(), compression_of(values.compress).status(),
        transports_of("BANYAN_TRANSPORTS", values.transports).status(),
        choose_net_devices(values.net_devices, net_devices()).status(),
        read_tuning(values).status()}) {
    if (!status.ok()) wrong.push_back(status);
  }
  // Elsewhere than under a launcher nothing says which rank this is, which is no wrong value.
  const Status launch = detect_launch(raw, values).status();
  if (launch.code() == Code::kInvalidArgument) wrong.push_back(launch);
  return wrong;
}

void report_variables(const RawEnvironment& raw, const Settings& settings, int rank) {
  if (rank != 0 || process().variables_reported.exchange(true)) return;
  for (const std::string& text : unknown_variables(raw))
    BANYAN_LOG(settings.log, Subsystem::kEnv, LogLevel::kWarn, "{}", text);
}

}  // namespace banyan
