// Staging lets a schedule work where it cannot touch the caller's buffers, as in the memory of a
// GPU: it works on memory of the host in their place, and copies bring in what it reads and take
// out what it has written.
//
//   const Schedule staged = stage(schedule, {.input = true, .output = true});
//
// Messages stay as they were, so that ranks which stage and ranks which do not take part in one
// call.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

// At most so many bytes are copied at once. Ten microseconds of a PCIe 5 link are as many, and a
// copy costs half of that to begin.
inline constexpr uint64_t kStagedPiece = uint64_t{512} << 10;

// Adds to the working memory what stands for these buffers, and to the steps those copies: kCopy
// with MemoryKind::kDevice. A step waits for what it reads and no more, so that copies, messages
// and sums overlap. What nothing reads is not brought in, and what nothing writes is not taken out.
Schedule stage(const Schedule& schedule, Staging staging, uint64_t piece = kStagedPiece);

}  // namespace banyan
