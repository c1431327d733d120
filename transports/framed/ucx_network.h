// Says what UCX is told of the network, and what it makes of it, as far as that needs no UCX.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "transports/framed/framed.h"
#include "transports/framed/wire.h"
#include "transports/transport.h"

namespace banyan {

// Messages below `eager_below` travel at once over TCP; for longer ones UCX asks the receiver
// first. That spares the copy of what comes before its receive is there, and bounds what piles up
// at a late receiver. It costs a round trip, which between hosts waits behind what is on its way.
struct TcpLengths {
  const char* eager_below;
  Pieces pieces;
};
inline constexpr TcpLengths kBetweenHosts = {"320k", {.bytes = 256 << 10, .of_long = 384 << 10}};
inline constexpr TcpLengths kInOneHost = {"192k", {.bytes = 512 << 10, .of_long = 512 << 10}};

// What UCX may use here.
struct Network {
  std::string devices;  // empty: whatever it finds
  bool only_tcp = false;
  bool one_host = false;  // only TCP, and nobody elsewhere
};
Result<Network> network_of(const Wiring& wiring);

// What a rank gives: a byte for each of these, and its address; nothing if it needs no network.
enum NetworkClaim : size_t { kOnlyTcp, kOneHost, kClaims };
bool all_claim(NetworkClaim claim, const std::vector<Bytes>& given);

// Adds the devices to a failure to connect, which is mostly one of them.
Status over(const std::string& devices, const Status& status);

// UCX connects by the first message, and ends the process where the peer dies meanwhile (an
// assertion of 1.13, wireup_ep.c). So that happens here, and no call finds a connection half made.
// Whoever gets the second greeting of a peer knows that this one had the first of everybody.
// `greetings` outlives the wire.
Status greet(Wire& wire, Wiring& wiring, std::span<const int> peers,
             std::vector<WireOperation>& greetings);

// Reads the protocols and devices of an endpoint, "tcp/eth0", from what ucp_ep_print_info writes,
// each once. Empty: another version writes it otherwise.
std::vector<std::string> lanes_in(std::string_view text);

// Says what carries messages to which peers: "tcp/eth0 (10 Gb/s) to 2 ranks of other hosts; tcp/lo
// to 1 rank of this host". `lanes` has an entry for each of them.
std::string who_is_reached(const Wiring& wiring, std::span<const int> peers,
                           std::span<const std::vector<std::string>> lanes);

}  // namespace banyan
