// One size of one pattern: warm-up, timing by OSU's method, validation.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "banyan/status.h"
#include "bench/perf/data.h"
#include "bench/perf/job.h"
#include "bench/perf/options.h"
#include "bench/perf/pattern.h"
#include "bench/perf/report.h"
#include "src/c_api/inspect.h"

namespace banyan::perf {

// Bytes that a rank allocates for them.
uint64_t buffer_bytes(const Options& options, int rank, int size, uint64_t count);
Result<Buffers> allocate_buffers(Job& job, const Options& options, uint64_t count);

// What a call of this pattern and size uses, as the library has it.
Result<CallPlan> plan_at(Job& job, const Options& options, const Buffers& buffers, uint64_t count);

// Collective. The row is complete at rank 0 only; `wrong` is everywhere.
Result<Row> measure(Job& job, const Options& options, const Data& data, const Buffers& buffers,
                    const Size& size, int round);

}  // namespace banyan::perf
