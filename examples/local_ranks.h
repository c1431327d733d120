// The ranks of an example: those of a launcher, or processes on this machine that this one forks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <string>

#include "banyan/communicator.h"
#include "banyan/status.h"

namespace banyan::example {

struct Job {
  int ranks = 0;         // to fork; 0: this process is a rank of its launcher's
  std::string compress;  // as BANYAN_COMPRESS, which decides where this is empty
};

// Runs `work` in each rank with what became of its communicator, and waits for all that it forked.
// `work` returns an exit status; the result is the largest. Call it before any thread is started.
int run_ranks(const Job& job, const std::function<int(Result<Communicator>)>& work);

}  // namespace banyan::example
