// Text as OSU prints it, CSV with the JSON names flattened, JSON.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/date.h"

namespace banyan::perf {

namespace {

using Json = nlohmann::ordered_json;

struct Column {
  std::string title;
  std::string text;
};

std::string word(const std::string& text) {
  if (text.empty()) return "-";
  std::string joined = text;
  std::replace(joined.begin(), joined.end(), ' ', '_');
  return joined;
}

// One list gives both the titles and the values, so that they cannot part.
std::vector<Column> columns(const Options& options, const Row& row) {
  const auto time = [](double value) { return fmt::format("{:.2f}", value); };
  const auto rate = [](double value) { return fmt::format("{:.4f}", value); };
  std::vector<Column> list = {{"# Size", fmt::format("{}", row.bytes)},
                              {"Avg Latency(us)", time(row.latency.average)}};
  if (options.full) {
    list.push_back({"Min Latency(us)", time(row.latency.least)});
    list.push_back({"Max Latency(us)", time(row.latency.most)});
    list.push_back({"Iterations", fmt::format("{}", row.iterations)});
  }
  if (options.tails) {
    list.push_back({"P50(us)", time(row.latency.p50)});
    list.push_back({"P90(us)", time(row.latency.p90)});
    list.push_back({"P99(us)", time(row.latency.p99)});
  }
  list.push_back({"algbw(GB/s)", rate(row.algorithm_bandwidth)});
  list.push_back({"busbw(GB/s)", rate(row.bus_bandwidth)});
  if (options.rounds > 1) list.push_back({"Round", fmt::format("{}", row.round)});
  if (options.check) list.push_back({"Wrong", fmt::format("{}", row.wrong)});
  list.push_back({"Algorithm", word(row.algorithm)});
  return list;
}

std::string line_of(const std::vector<Column>& list, std::string Column::*part) {
  std::string line = fmt::format("{:<12}", list.front().*part);
  for (size_t i = 1; i + 1 < list.size(); ++i) line += fmt::format("{:>17}", list[i].*part);
  return line + "  " + list.back().*part + "\n";
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// So many digits from the first that is not 0, or the whole number where that is longer.
double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int before_point = static_cast<int>(std::floor(std::log10(std::fabs(value)))) + 1;
  const double scale = std::pow(10.0, std::max(digits - before_point, 0));
  return std::round(value * scale) / scale;
}

// Clocks count nanoseconds; a mean, or a part of what was measured together, may be finer.
double time_value(double microseconds) {
  constexpr double kNanoseconds = 1000;
  return microseconds >= 1 ? std::round(microseconds * kNanoseconds) / kNanoseconds
                           : rounded(microseconds, 4);
}

double rate_value(double rate) {
  return rounded(rate, 4);
}

Json json_row(const Options& options, const Row& row) {
  Json json;
  if (options.rounds > 1) json["round"] = row.round;
  json["bytes"] = row.bytes;
  json["count"] = row.count;
  json["algorithm"] = row.algorithm;
  json["transports"] = row.transports;
  json["iterations"] = row.iterations;
  json["latency_us"] = {
      {"avg", time_value(row.latency.average)}, {"min", time_value(row.latency.least)},
      {"max", time_value(row.latency.most)},    {"p50", time_value(row.latency.p50)},
      {"p90", time_value(row.latency.p90)},     {"p99", time_value(row.latency.p99)}};
  json["algbw_GBps"] = rate_value(row.algorithm_bandwidth);
  json["busbw_GBps"] = rate_value(row.bus_bandwidth);
  json["wire_bytes"] = row.wire_bytes;
  json["checked"] = row.checked;
  json["wrong"] = row.wrong;
  return json;
}

// What a row needs to be understood apart from its file; the report begins with the same.
Json json_of_run(const Options& options, const Setting& setting) {
  Json json;
  json["version"] = setting.version;
  json["collective"] = name_of(options.pattern);
  json["ranks"] = setting.ranks;
  json["hosts"] = setting.hosts;
  json["datatype"] = name_of(options.type);
  json["op"] = name_of(options.op);
  json["in_place"] = options.runs_in_place();
  return json;
}

// Gives names and values of a CSV row: the JSON row with objects inside it flattened, then what
// holds for all rows, so that files can be joined and the places of the others stay.
std::vector<Column> csv_columns(const Options& options, const Setting& setting, const Row& row) {
  std::vector<Column> list;
  const auto add = [&](const std::string& name, const Json& value) {
    list.push_back({name, value.is_string() ? csv_field(value.get<std::string>()) : value.dump()});
  };
  const Json json = json_row(options, row);
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) {
      add(name, value);
      continue;
    }
    for (const auto& [inner, held] : value.items()) add(fmt::format("{}_{}", name, inner), held);
  }
  const Json run = json_of_run(options, setting);
  for (const auto& [name, value] : run.items()) add(name, value);
  return list;
}

std::string csv_line(const std::vector<Column>& list, std::string Column::*part) {
  std::string line;
  for (const Column& column : list) line += (line.empty() ? "" : ",") + column.*part;
  return line + "\n";
}

Status write_all(int descriptor, std::string_view text, std::string_view where) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int cause = errno;
      return {Code::kSystem,
              fmt::format("cannot write to {}: {}", where, std::generic_category().message(cause))};
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status open_for_writing(std::string_view option, const std::string& file, Descriptor* descriptor) {
  if (file.empty() || file == "-") return {};
  *descriptor = Descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (descriptor->valid()) return {};
  const int cause = errno;
  return {Code::kSystem, fmt::format("{} {}: cannot open it for writing: {}", option, file,
                                     std::generic_category().message(cause))};
}

// A device or a pipe cannot be truncated and need not be.
void empty_file(const Descriptor& descriptor) {
  if (descriptor.valid() && ::ftruncate(descriptor.get(), 0) != 0) errno = 0;
}

}  // namespace

std::string text_header(const Options& options, const Setting& setting) {
  const bool typed = options.pattern != Pattern::kBarrier;
  const std::string_view device = device_of(options.home);
  std::string type;
  if (typed) type = fmt::format(", {}", name_of(options.type));
  if (is_reducing_pattern(options.pattern)) type += fmt::format(" {}", name_of(options.op));
  return fmt::format(
      "# banyan_perf {} {}\n"
      "# {} rank{} on {} host{}{}{}{}, transports {}, {}\n"
      "# {}, {}, {} core{}, {}\n{}",
      setting.version, name_of(options.pattern), setting.ranks, setting.ranks == 1 ? "" : "s",
      setting.hosts, setting.hosts == 1 ? "" : "s", type,
      options.runs_in_place() ? ", in place" : "",
      device.empty() ? "" : fmt::format(", {} memory", device),
      setting.transports.empty() ? "none" : setting.transports,
      options.validates() ? "validated against fp64" : "not validated", setting.machine.host,
      setting.machine.cpu, setting.machine.cores, setting.machine.cores == 1 ? "" : "s",
      setting.machine.kernel, line_of(columns(options, {}), &Column::title));
}

std::string text_row(const Options& options, const Row& row) {
  return line_of(columns(options, row), &Column::text);
}

std::string csv_header(const Options& options) {
  return csv_line(csv_columns(options, {}, {}), &Column::title);
}

std::string csv_row(const Options& options, const Setting& setting, const Row& row) {
  return csv_line(csv_columns(options, setting, row), &Column::text);
}

std::string json_report(const Options& options, const Invocation& invocation,
                        const Setting& setting, const std::vector<Row>& rows) {
  Json json;
  json["program"] = "banyan_perf";
  json.update(json_of_run(options, setting));
  json["shared"] = options.home == Home::kShared;
  json["device"] = device_of(options.home);
  json["fresh"] = options.fresh;
  json["bind"] = options.bind;
  json["compress"] = setting.compress;
  json["determinism"] = setting.determinism;
  json["command"] = invocation.command;
  json["launcher"] = invocation.launcher;
  json["variables"] = Json::object();
  for (const auto& [name, value] : invocation.variables) json["variables"][name] = value;
  json["date"] = invocation.date;
  json["places"] = Json::array();
  for (const Place& place : setting.places)
    json["places"].push_back({{"host", place.host}, {"cores", place.cores}});
  json["machine"] = {{"host", setting.machine.host},
                     {"cpu", setting.machine.cpu},
                     {"cores", setting.machine.cores},
                     {"memory_bytes", setting.machine.memory_bytes},
                     {"kernel", setting.machine.kernel}};
  json["results"] = Json::array();
  for (const Row& row : rows) json["results"].push_back(json_row(options, row));
  // Names of hosts and processors may be anything; what is no UTF-8 is replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Invocation invocation_of(std::vector<std::string> command, std::string launcher,
                         const RawEnvironment& raw) {
  Invocation invocation{.command = std::move(command),
                        .launcher = std::move(launcher),
                        .variables = {},
                        .date = utc_now(Decimals::kNone)};
  for (const Variable& variable : variables()) {
    const std::string* value = raw.find(variable.name);
    if (value == nullptr || value->empty()) continue;
    invocation.variables.emplace_back(variable.name, variable.secret ? "(set, not shown)" : *value);
  }
  return invocation;
}

Result<Report> Report::open(const Options& options, Invocation invocation) {
  Report report;
  report.options_ = options;
  report.invocation_ = std::move(invocation);
  BANYAN_TRY(open_for_writing("--csv", options.csv, &report.csv_));
  BANYAN_TRY(open_for_writing("--json", options.json, &report.json_));
  return report;
}

Status Report::begin(const Setting& setting) {
  setting_ = setting;
  empty_file(csv_);
  empty_file(json_);
  if (!options_.quiet())
    BANYAN_TRY(write_all(STDOUT_FILENO, text_header(options_, setting), "stdout"));
  if (options_.csv == "-") return write_all(STDOUT_FILENO, csv_header(options_), "stdout");
  if (csv_.valid()) return write_all(csv_.get(), csv_header(options_), options_.csv);
  return {};
}

Status Report::add(const Row& row) {
  rows_.push_back(row);
  if (!options_.quiet()) BANYAN_TRY(write_all(STDOUT_FILENO, text_row(options_, row), "stdout"));
  const std::string csv = csv_row(options_, setting_, row);
  if (options_.csv == "-") return write_all(STDOUT_FILENO, csv, "stdout");
  if (csv_.valid()) return write_all(csv_.get(), csv, options_.csv);
  return {};
}

Status Report::finish() {
  const std::string json = json_report(options_, invocation_, setting_, rows_);
  if (options_.json == "-") return write_all(STDOUT_FILENO, json, "stdout");
  if (json_.valid()) return write_all(json_.get(), json, options_.json);
  return {};
}

}  // namespace banyan::perf
