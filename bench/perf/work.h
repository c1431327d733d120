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
  const Buffers& buffers;
  Layout layout;
  std::byte* input = nullptr;  // on the host; null: this rank has none
  std::byte* output = nullptr;
  Call call;
  double loss_share = 0;  // of the greatest magnitude, that codecs lose of one value at most

  bool onlooker() const { return is_pair(which.pattern) && which.rank > 1; }
  uint64_t bytes_of(uint64_t elements) const { return elements * size_of(options.type); }
};

inline Status write_input(const Work& work) {
  if (work.input == nullptr) return {};
  work.data.write(work.which.rank, 0, work.layout.input, work.input);
  return work.buffers.input.upload(work.bytes_of(work.layout.input_offset),
                                   work.bytes_of(work.layout.input));
}

// All that a call may touch: what lies on a device becomes what its twin is, or its twin it.
inline Status move_all(const Work& work, Status (Memory::*move)(size_t, size_t) const) {
  const Layout& layout = work.layout;
  BANYAN_TRY(
      (work.buffers.input.*move)(0, work.bytes_of(layout.one_buffer ? layout.span : layout.input)));
  return (work.buffers.output.*move)(0, layout.one_buffer ? 0 : work.bytes_of(layout.output));
}

}  // namespace banyan::perf
