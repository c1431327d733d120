// Staging lets a schedule work where it cannot touch the caller's buffers, as in the memory of a
// GPU: it works on memory of the host in their place, and copies bring in what it reads and take
// out what it has written.
//
//   const Schedule staged = stage(schedule, {.input = true, .output = true});
//
// Where whoever can touch the buffers has codecs, these encode and decode there: then only messages
// are copied, and nothing stands for a buffer that all steps go by.
//
// Where whoever carries messages can touch them, long messages go straight from and to the buffers,
// unless a step of the host writes what they bring or send, or reads what they bring.
//
// Messages stay as they were, so that ranks which stage and ranks which do not take part in one
// call.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

// At most so many bytes are copied at once. Ten microseconds of a PCIe 5 link are as many, and a
// copy costs half of that to begin.
inline constexpr uint64_t kStagedPiece = uint64_t{512} << 10;

// Adds to the working memory what stands for these buffers, and to the steps those copies: kCopy
// with MemoryKind::kDevice. A step waits for what it reads and no more, so that copies, messages
// and sums overlap. What nothing reads is not brought in, and what nothing writes is not taken out.
// What each step of the host leaves has room of its own, from which it is taken out.
//
// `direct_from`: by peer, how long a message is at least that goes straight; kNeverDirect: none
// does. Empty: none to any peer.
inline constexpr uint64_t kNeverDirect = ~uint64_t{0};
Schedule stage(const Schedule& schedule, const Staging& staging, uint64_t piece = kStagedPiece,
               std::span<const uint64_t> direct_from = {});

// Whether Staging::codecs has what the step does to what lies in such buffers: it selects, encodes,
// decodes, or divides elements of the type of sums where they are. Its other operands may be
// working memory; what an encoding leaves must be in such a buffer, too.
bool is_done_there(const Step& step, const Staging& staging);

}  // namespace banyan
