// Every rank has one authenticated socket to every other one, for what is not data: descriptors
// while transports connect, farewells and verdicts afterwards, and the news of a death (end of
// file).
//
// Ranks of one host use AF_UNIX (an abstract name that only members know, SO_PEERCRED checked),
// others TCP. After connect_links the sockets are non-blocking and belong to the monitor thread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/bootstrap/authentication.h"
#include "src/bootstrap/exchange.h"
#include "src/bootstrap/host_addresses.h"

namespace banyan {

// Two ranks share a host when they can pass descriptors and see each other's memory: same boot,
// same network namespace, same user (of the host, whatever a container calls it). Whoever cannot
// even so is a host of its own after assemble().
struct HostIdentity {
  std::string name;                  // of the host, for people
  std::array<uint8_t, 32> digest{};  // of boot id, network namespace and user
  // SO_PEERCRED tells its user from all others: not one that goes by the overflow number.
  bool user_is_known = true;
  bool operator==(const HostIdentity& other) const { return digest == other.digest; }
};
Result<HostIdentity> this_host();

struct LinkPeer {
  HostIdentity host;
  bool same_host = false;
  bool same_process = false;
  bool same_pid_namespace = false;  // each sees the process of the other
  int process = -1;  // its lowest rank, the same wherever one looks from; -1: it has no other
  int pid = 0;       // as the kernel says; 0: on another host, or not to be seen from here
};

bool share_a_host(std::span<const LinkPeer> peers);

struct Links {
  int rank = 0;
  int size = 1;
  std::vector<LinkPeer> peers;        // by rank, self included
  std::vector<Descriptor> sockets;    // by rank, self invalid
  Key key{};                          // of this communicator; from all ranks' nonces
  uint32_t epoch = 0;                 // random, the same on all ranks, never 0
  std::optional<Address> address;     // of this host, where other hosts reach it; the port is 0
  std::vector<Interface> interfaces;  // of this host; none where all ranks share one network
};

// All ranks take part: two rounds of the exchange, then P - 1 connections. The lower rank listens,
// at an address that leads to it from all other hosts. Where it has none, all ranks say so at once.
Result<Links> connect_links(Exchange& exchange, const Environment& environment, TimePoint deadline,
                            const Log& log);
// The same, on a host that says of itself what the caller likes.
Result<Links> connect_links(Exchange& exchange, const HostIdentity& host,
                            const Environment& environment, TimePoint deadline, const Log& log);

// Pass descriptors with one byte of data over a blocking or non-blocking AF_UNIX socket, 1 to 253
// at once. kBusy: the socket is full, or the user has as many under way as Linux allows.
Status send_descriptors(int socket, std::span<const int> descriptors);
// Waits until the deadline. Exactly `count`, close-on-exec; MSG_CTRUNC is kSystem naming why.
Result<std::vector<Descriptor>> receive_descriptors(int socket, size_t count, TimePoint deadline);

}  // namespace banyan
