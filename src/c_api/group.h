// Groups: calls between banyan_group_start() and banyan_group_end() of a thread begin together when
// the outermost one ends, and each that blocks is done by then.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

#include "banyan/status.h"
#include "src/c_api/handles.h"

namespace banyan {

// Counts the groups that this thread has open.
extern constinit thread_local int group_depth;
inline bool in_group() {
  return group_depth > 0;
}

// kInvalidUsage inside a group, naming the function. Comes before all other checks of a function.
Status refuse_in_group(std::string_view function);
// A call on `comm` that went wrong: where a group is open, its end returns the first of them.
void fail_group(const Status& status, banyan_comm_t comm);
// Puts a checked call into the open group. `request` is null for a blocking call, which `plain` may
// describe, too.
Status join_group(OpenCommunicator& communicator, const Call& call, banyan_request_t request,
                  const PlainCall* plain = nullptr);
// Puts a small call that is known there, on a communicator that is pinned and usable. False:
// run_call().
bool join_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept;

}  // namespace banyan
