// The calls that are timed, each through its blocking function of the C interface.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/banyan.h"
#include "bench/perf/pattern.h"

namespace banyan::perf {

struct Call {
  Pattern pattern = Pattern::kAllreduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  banyan_datatype_t type = BANYAN_FLOAT32;
  banyan_op_t op = BANYAN_SUM;
  int rank = 0;  // of a pair: 0 begins
  banyan_comm_t comm = nullptr;
  int peer = -1;  // of a pair; -1: these are ranks 0 and 1
};

// Makes one iteration. Patterns between two ranks are a ping-pong, or a window of messages one way
// with a short answer, or both ways; other ranks do nothing.
banyan_result_t run_once(const Call& call);

// Describes one call of those that run_once() makes, and how many like it this rank makes in an
// iteration. Onlookers make none, and what is described for them is not to be used.
banyan_call_t describe(const Call& call);
uint64_t messages_of(const Call& call);

}  // namespace banyan::perf
