// TCP sockets for Addresses.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/base/environment.h"
#include "src/bootstrap/rendezvous.h"

namespace banyan {

struct Listener {
  Descriptor socket;  // non-blocking
  Address address;    // with the port that it got
};
// Listens. Port 0: the first free one of the range, else the kernel's choice.
//
//   kInvalidArgument  a wildcard address
//   kBusy             the one port that may be had is taken
//   kSystem           anything else, also where all ports of the range are taken
Result<Listener> listen_at(const Address& address, const PortRange& ports);

// Tells whether what socket(), bind(), listen() or connect() said at once may be otherwise later:
// others begin to listen, hosts to answer, ports get free. Waiting brings no route, address or
// family that this host does not have, and no leave that it does not give.
bool waiting_mends(int error);

// Begins to connect; the socket is writable when that has ended, see connect_result.
//
//   kSystem    waiting does not mend it, and the message says what does
//   kPeerLost  waiting may mend it
Result<Descriptor> begin_connect(const Address& address);
// 0 or an errno.
int connect_result(int socket);

// Where the other end is; all zeros where that cannot be told.
Address peer_of(int socket);
// Says where this end is, without its port.
std::optional<Address> own_end_of(int socket);

// Small messages are sent at once.
void send_at_once(int socket);
// For sockets that live as long as a communicator: the same, and a dead network is noticed.
void tune_tcp(int socket);

}  // namespace banyan
