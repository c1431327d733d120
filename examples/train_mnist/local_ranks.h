// Ranks on this machine without a launcher: processes that this one forks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>

#include "banyan/communicator.h"
#include "banyan/status.h"

namespace banyan::example {

// Forks `count` ranks, runs `work` in each with what became of its communicator, and waits for all.
// `work` returns an exit status; the result is the largest. Call it before any thread is started.
int run_local_ranks(int count, const std::function<int(Result<Communicator>)>& work);

}  // namespace banyan::example
