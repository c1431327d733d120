// Times allreduces of float32 by each of the codecs that `auto` chooses from.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/choice/codec_times.h"
#include "banyan/status.h"
#include "bench/tune/search.h"

namespace banyan::tune {

// From 1 KiB on, each four times as long as the one before, as far as there is time. At each length
// exact calls, by the algorithm that was found there, and those by codecs run in turns, in an order
// drawn anew each time. A codec's time is that of the exact calls times what it took of theirs in
// the middle one of the turns, so that what a turn has in common does not count. None, where the
// subject was not looked at. An error is that of a trial.
Result<std::vector<CodecTime>> time_codecs(const Subject& allreduce, const Laboratory& laboratory,
                                           uint32_t seed);

// A line for each length. Empty: there are none.
std::string report_of(const std::vector<CodecTime>& times);

}  // namespace banyan::tune
