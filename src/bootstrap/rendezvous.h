// Where ranks that know nothing of each other meet: one of them listens, all of them come with a
// key.
//
// The server runs in a thread of the process that opened it, as long as it takes. Limits before
// authentication: 64 connections, 2 s and 512 bytes each; nothing but one fixed-size header is
// parsed before its MAC is verified; it never listens on a wildcard address.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/bootstrap/address.h"
#include "src/bootstrap/authentication.h"
#include "src/bootstrap/exchange.h"

namespace banyan {

// What 128 bytes of banyan_unique_id_t hold: magic, version, address, key, token, check sum.
struct UniqueId {
  Address address;
  Key key{};
  uint64_t token = 0;  // of the rendezvous, in the process that opened it

  std::array<std::byte, 128> pack() const;
};
// kInvalidArgument: not an id that banyan_get_unique_id made.
Result<UniqueId> unpack_unique_id(std::span<const std::byte, 128> bytes);

// Listens on the address, and on `also` where the same port is free there (port 0: from
// BANYAN_PORT_RANGE, else the kernel's choice) and serves one communicator, then ends by itself:
// when all ranks have finished, or at the deadline. The thread owns everything it needs and is
// detached.
struct RendezvousOptions {
  Address address;
  PortRange ports;
  Key key{};
  TimePoint deadline{};
  std::vector<Address> also = {};  // of this host, where others may reach it
};
Result<Address> open_rendezvous(const RendezvousOptions& options, const Log& log);

// Joins as `rank` of `size`. `candidates` are tried in turn until the deadline; strangers that
// listen on one of them are told apart by the handshake. `must_listen`: the server was listening
// before this call, so that it is final where all of them refuse, and gives kInvalidUsage (the id
// was used, has expired, or its process has ended). What waiting does not mend is final, too, where
// it is so of all candidates. All ranks of one rendezvous must name the same size and different
// ranks: otherwise kMismatch on all of them. At the deadline kTimeout names the ranks that have not
// arrived. Where others may meet later (not with must_listen), whoever begins after a rendezvous
// has failed is one of those, and so is a later call of a process that took part: what it finds is
// in its way, and ends where it is of that process itself.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::vector<Address> candidates;
  bool must_listen = false;
  Key key{};
  bool key_is_private = true;  // other users of the host cannot know it
  TimePoint deadline{};
  TimePoint begun = Clock::now();
  // Called once the rendezvous has let this rank in, before it waits for the others: with
  // must_listen once. An error ends it.
  std::function<Status()> arrived = {};
  uint32_t call = 0;  // of this process, where it may meet at this address again
  bool asks = false;  // only who is there: kBusy at once where others are about to end
  Watch watch = {};   // outlives the exchange; what it says is the result of whatever waits
};
Result<std::unique_ptr<Exchange>> join_rendezvous(const JoinOptions& options, const Log& log);

}  // namespace banyan
