// The figures of a run as text, CSV and JSON.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "bench/machine.h"
#include "bench/perf/options.h"
#include "bench/perf/statistics.h"
#include "src/base/descriptor.h"
#include "src/base/environment.h"

namespace banyan::perf {

// How the program was started.
struct Invocation {
  std::vector<std::string> command;  // its words
  std::string launcher;              // who started the ranks
  // Those of ours that are set, but no secret's value.
  std::vector<std::pair<std::string, std::string>> variables;
  std::string date;
};
Invocation invocation_of(std::vector<std::string> command, std::string launcher,
                         const RawEnvironment& raw);

// Where a rank runs.
struct Place {
  std::string host;
  std::string cores;  // that it may use: "0-3,8"
};

// What holds for all rows.
struct Setting {
  std::string version;
  int ranks = 1;
  int hosts = 1;
  std::string transports;
  std::string compress;
  std::string determinism;
  std::vector<Place> places;  // of each rank
  Machine machine;
};

struct Row {
  int round = 1;
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string algorithm;
  std::string transports;
  uint64_t iterations = 0;
  Latency latency;
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;
  uint64_t wire_bytes = 0;
  bool checked = false;
  uint64_t wrong = 0;
};

std::string text_header(const Options& options, const Setting& setting);
std::string text_row(const Options& options, const Row& row);
std::string csv_header(const Options& options);
std::string csv_row(const Options& options, const Setting& setting, const Row& row);
std::string json_report(const Options& options, const Invocation& invocation,
                        const Setting& setting, const std::vector<Row>& rows);

// Holds the places that the figures go to. It is opened before ranks start, so that a file that
// cannot be written costs no run; a file keeps its content until there is something to replace it
// with.
class Report {
 public:
  static Result<Report> open(const Options& options, Invocation invocation);

  Status begin(const Setting& setting);
  Status add(const Row& row);
  Status finish();

 private:
  Options options_;
  Invocation invocation_;
  Descriptor csv_;
  Descriptor json_;
  Setting setting_;
  std::vector<Row> rows_;
};

}  // namespace banyan::perf
