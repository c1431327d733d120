// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/message_line.h"

#include "src/c_api/run.h"

namespace banyan {

const KnownCalls::Place* MessageLine::place_for(const OpenCommunicator& communicator,
                                                const PlainCall& message) const {
  if (message.collective != BANYAN_SEND && message.collective != BANYAN_RECV) return nullptr;
  if (!messages.empty()) {
    const auto& [before, place] = messages.back();
    if (comm != communicator.handle || message.collective != before.collective ||
        message.root != before.root)
      return nullptr;
    if (place->serves(message)) return place;  // as in a window of equal ones
  }
  const KnownCalls::Place* place = communicator.known.find(message);
  return place != nullptr && place->known.quick != nullptr ? place : nullptr;
}

Status run_line(OpenCommunicator& communicator, const MessageLine& line, size_t& done) {
  done = 0;
  if (!takes_known(communicator)) return {};
  for (const MessageLine::Message& message : line.messages) {
    QuickCall& quick = *message.place->known.quick;
    const bool more = ++done < line.messages.size();
    quick.membership.begin(quick, message.call.send, message.call.recv, more);
    if (run_through(quick)) continue;
    BANYAN_TRY(go_on(quick));
    communicator.membership->take_baton();  // which that leaves where bytes have not left
  }
  communicator.membership->leave_quickly();
  return {};
}

}  // namespace banyan
