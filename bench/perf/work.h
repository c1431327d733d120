// One size of one pattern on this rank: where its data are and which call it makes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/perf/calls.h"
#include "bench/perf/data.h"
#include "bench/perf/job.h"
#include "bench/perf/options.h"
#include "bench/perf/pattern.h"

namespace banyan::perf {

struct Work {
  Job& job;
  const Options& options;
  const Data& data;
  Case which;
  Layout layout;
  std::byte* input = nullptr;  // null: this rank has none
  std::byte* output = nullptr;
  Call call;
  double loss_share = 0;  // of the greatest magnitude, that codecs lose of one value at most

  bool onlooker() const { return is_pair(which.pattern) && which.rank > 1; }
  uint64_t bytes_of(uint64_t elements) const { return elements * size_of(options.type); }
};

inline void write_input(const Work& work) {
  if (work.input != nullptr) work.data.write(work.which.rank, 0, work.layout.input, work.input);
}

}  // namespace banyan::perf
