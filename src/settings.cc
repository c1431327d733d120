// SPDX-License-Identifier: Apache-2.0

#include "src/settings.h"

#include <fmt/format.h>

#include "src/process.h"
#include "transports/transport.h"

namespace banyan {
namespace {

constexpr int kDeterministic = 1;  // BANYAN_DETERMINISTIC, which is the default

Status named(std::string_view variable, std::string_view value, const Status& status) {
  return {status.code(), fmt::format("{}={}: {}", variable, value, status.message())};
}

}  // namespace

Result<Settings> make_settings(const Wishes& wishes, const RawEnvironment& raw, int rank) {
  Result<Environment> environment = parse_environment(raw);
  BANYAN_TRY(environment.status());

  Settings settings;
  settings.environment = std::move(*environment);
  const Environment& values = settings.environment;
  settings.name = wishes.name;
  settings.timeout_s = wishes.timeout_s > 0 ? wishes.timeout_s : values.timeout_s;
  settings.init_timeout_s =
      wishes.init_timeout_s > 0 ? wishes.init_timeout_s : values.init_timeout_s;
  settings.determinism = wishes.determinism == 0 ? kDeterministic : wishes.determinism;

  Result<Rules> rules = parse_rules(values.algorithm);
  if (!rules.ok()) return named("BANYAN_ALGO", values.algorithm, rules.status());
  settings.rules = std::move(*rules);

  const bool own = !wishes.transports.empty();
  const std::string& text = own ? wishes.transports : values.transports;
  Result<std::vector<int>> transports = parse_transports(text);
  if (!transports.ok())
    return named(own ? "transports" : "BANYAN_TRANSPORTS", text, transports.status());
  settings.transports = std::move(*transports);

  Result<Log> log = Log::open(values.debug, values.debug_file, rank);
  BANYAN_TRY(log.status());
  settings.log = std::move(*log);
  return settings;
}

void report_variables(const RawEnvironment& raw, const Settings& settings, int rank) {
  if (rank != 0 || process().variables_reported.exchange(true)) return;
  for (const std::string& text : unknown_variables(raw))
    BANYAN_LOG(settings.log, Subsystem::kEnv, LogLevel::kWarn, "{}", text);
  for (const std::string& text : ineffective_variables(raw))
    BANYAN_LOG(settings.log, Subsystem::kEnv, LogLevel::kWarn, "{}", text);
}

}  // namespace banyan
