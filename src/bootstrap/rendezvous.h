// Ranks that know nothing of each other meet here: one of them listens, all of them come with a
// key.
//
// The server runs in a thread of the process that opened it, as long as it takes. Limits before
// authentication: 64 connections, 2 s and 512 bytes each. Nothing but one fixed-size header is
// parsed before its MAC is verified. It never listens on a wildcard address.
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

// Listens on the address, and on `also` where the same port is free there. Port 0: one from
// BANYAN_PORT_RANGE, else the kernel's choice. It serves one communicator, then ends by itself:
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

// Joins as `rank` of `size`. `candidates` are tried in turn until the deadline; the handshake tells
// strangers apart that listen on one of them. `must_listen`: the server was listening before this
// call.
//
//   what happened                                      result
//   all candidates refuse, must_listen                 kInvalidUsage, at once: the id was used, has
//                                                      expired, or its process has ended
//   all candidates fail in a way that waiting does     that error, at once
//   not mend
//   ranks name different sizes, or the same rank       kMismatch, on all of them
//   the deadline passes                                kTimeout; names the ranks that are missing
//
// Without must_listen others may meet here later. Whoever begins after a rendezvous has failed is
// one of those, and so is a later call of a process that took part. The failed rendezvous that it
// finds is in its way; where it is of that process itself, it ends.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::vector<Address> candidates;
  bool must_listen = false;
  Key key{};
  bool key_is_private = true;  // other users of the host cannot know it
  TimePoint deadline{};
  TimePoint begun = Clock::now();
  // Is called once the rendezvous has let this rank in, before it waits for the others; with
  // must_listen once. An error ends it.
  std::function<Status()> arrived = {};
  uint32_t call = 0;  // of this process, where it may meet at this address again
  bool asks = false;  // only who is there: kBusy at once where others are about to end
  Watch watch = {};   // outlives the exchange; what it says is the result of whatever waits
};
Result<std::unique_ptr<Exchange>> join_rendezvous(const JoinOptions& options, const Log& log);

}  // namespace banyan
