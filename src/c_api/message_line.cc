// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/message_line.h"

#include "src/c_api/run.h"

namespace banyan {

bool MessageLine::fits(const OpenCommunicator& communicator, const PlainCall& message) const {
  if (message.collective != BANYAN_SEND && message.collective != BANYAN_RECV) return false;
  const bool alike = messages.empty() || (comm == communicator.handle &&
                                          message.collective == messages.front().collective &&
                                          message.root == messages.front().root);
  if (!alike) return false;
  const KnownCall* known = communicator.known.find(message);
  return known != nullptr && known->quick != nullptr;
}

Status run_line(OpenCommunicator& communicator, const MessageLine& line, size_t& done) {
  for (done = 0; done < line.messages.size(); ++done) {
    const bool more = done + 1 < line.messages.size();
    QuickCall* quick = begin_known(&communicator, line.messages[done], more);
    if (quick == nullptr) return {};
    if (!run_through(*quick)) BANYAN_TRY(go_on(*quick));
  }
  return {};
}

}  // namespace banyan
