// Work comes to streams through here: it is done by the stream, or added to what the stream
// captures.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "tests/cuda/driver/state.h"

namespace banyan::standin {

Submitted submit(const SharedStream& stream, Work work, std::vector<Mark> after = {});
bool is_capturing(const Stream& stream);

// The event becomes what the stream has to do so far; the stream waits for what an event was.
int record_event(const SharedStream& stream, Event& event);
int wait_in_stream(const SharedStream& stream, const EventRecord& record);

// Until it is done: kSuccess, or what has become of the context.
int wait_for(const Mark& mark);

}  // namespace banyan::standin
