// The figures of a run as text, CSV and JSON.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "bench/machine.h"
#include "bench/perf/options.h"
#include "bench/perf/statistics.h"
#include "src/base/descriptor.h"

namespace banyan::perf {

// What holds for all rows.
struct Setting {
  std::string version;
  int ranks = 1;
  int hosts = 1;
  std::string transports;
  std::string compress;
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
std::string csv_row(const Options& options, const Row& row);
std::string json_report(const Options& options, const Setting& setting,
                        const std::vector<Row>& rows);

// The places that the figures go to. Opened before ranks start, so that a file that cannot be
// written costs no run; a file keeps its content until there is something to replace it with.
class Report {
 public:
  static Result<Report> open(const Options& options);

  Status begin(const Setting& setting);
  Status add(const Row& row);
  Status finish();

 private:
  Options options_;
  Descriptor csv_;
  Descriptor json_;
  Setting setting_;
  std::vector<Row> rows_;
};

}  // namespace banyan::perf
