// Ranks of this process meet for a moment, so that predictions go by what messages take here.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "src/base/message_times.h"

namespace banyan::info {

inline constexpr int kMostMeeting = 8;
// Tells what messages took that many threads of this process when they met through shared memory,
// at most kMostMeeting. Empty where they could not meet, or measured nothing: then a table has to
// do.
MessageTimes meet(int ranks);

}  // namespace banyan::info
