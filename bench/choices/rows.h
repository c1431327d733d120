// What has been measured of a choice, as lines of text and in memory.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"
#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan::choices {

// A collective of elements of a type: "allreduce", "allreduce:float16".
struct Kind {
  Collective collective = Collective::kAllreduce;
  DataType type = DataType::kFloat32;
};
std::string text_of(const Kind& kind);
Result<Kind> parse_kind(std::string_view text);

struct Entry {
  int algorithm = 0;
  double us = 0;
};
struct Point {
  Problem problem;
  int ranks = 2;
  Medium medium = Medium::kMemory;
  std::vector<int> hosts;  // of kNetwork: for each rank, the lowest rank of its host
  std::vector<Entry> entries;
};

std::string_view name_of(Medium medium);  // "shared_cores"
// Lines of bench/select's CSV, point by point. kInvalidArgument names the line.
Result<std::vector<Point>> read_points(std::string_view text);

}  // namespace banyan::choices
