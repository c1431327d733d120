// This host, this process, and abstract AF_UNIX sockets between the processes of one host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/liveness/introduction.h"

namespace banyan {

ProcessIdentity this_process();

// Tells the boot and the network namespace: where it is the same, so are the addresses. An error:
// it cannot be told now.
Result<std::array<uint8_t, 32>> this_network();

// Finds whom the kernel takes a user of this namespace for in the one around it, by the text of
// /proc/self/uid_map: SO_PEERCRED compares those. A user that the map does not have stays.
uint64_t outer_user(const std::string& uid_map, uint64_t user);

// Tells whether SO_PEERCRED shows that number for one user only. `overflow` is shown for every user
// that the map does not have, so it is one user's only where the map has all there are.
bool is_one_user(const std::string& uid_map, uint64_t user, uint64_t overflow);

Result<LocalName> random_local_name();
Result<Descriptor> listen_local(const LocalName& name);

// kBusy: try again soon; kPeerLost: nobody listens there any more; kSystem.
struct LocalConnection {
  Descriptor socket;
  int pid = 0;  // of the process that listens; 0: it cannot be seen from here
};
Result<LocalConnection> connect_local(const LocalName& name);

}  // namespace banyan
