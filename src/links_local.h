// This host, this process, and abstract AF_UNIX sockets between the processes of one host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/wire_links.h"

namespace banyan {

ProcessIdentity this_process();

Result<LocalName> random_local_name();
Result<Descriptor> listen_local(const LocalName& name);

// kBusy: try again soon; kPeerLost: nobody listens there any more; kSystem.
struct LocalConnection {
  Descriptor socket;
  int pid = 0;  // of the process that listens; 0: it cannot be seen from here
};
Result<LocalConnection> connect_local(const LocalName& name);

}  // namespace banyan
