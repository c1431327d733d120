// A line is the known messages of a group that go from one rank to one other: a window of sends, as
// benchmarks and pipelines have it. They run one after another as programs, and only the last waits
// to be taken. In that order none can wait for another, so they need no engine.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

#include "banyan/status.h"
#include "src/c_api/handles.h"

namespace banyan {

struct MessageLine {
  struct Message {
    PlainCall call;
    const KnownCalls::Place* place;  // until the group ends nothing else becomes known
  };

  banyan_comm_t comm = nullptr;
  std::vector<Message> messages;

  // Where this message, on this communicator, is known, if it may be the next; null: it may not.
  const KnownCalls::Place* place_for(const OpenCommunicator& communicator,
                                     const PlainCall& message) const;
};

// Runs them; `done` counts those that were begun. None, without an error: they are to be run in
// another way, since the communicator has failed or has something under way. Requires that the
// communicator is pinned and the group closed.
Status run_line(OpenCommunicator& communicator, const MessageLine& line, size_t& done);

}  // namespace banyan
