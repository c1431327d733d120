// Hosts have addresses, of which some lead from one host to another.
//
// An address that two hosts have, as docker0's 172.17.0.1, leads from none to the other: whoever
// dials it reaches itself. So every rank tells the others all addresses of its host, and all judge
// alike.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/base/interface.h"
#include "src/bootstrap/address.h"

namespace banyan {

inline constexpr size_t kHostAddressesMost = 64;

struct HostAddress {
  std::string interface;
  Address address;  // the port is 0
  // The rest is not told to others: how many bits its network has, and whether that lies behind a
  // bridge by which nothing goes out, as those of containers and virtual machines do.
  uint8_t bits = 128;
  bool bridge = false;
  bool operator==(const HostAddress&) const = default;
};

// What a rank tells of the network that it is in.
struct HostAddresses {
  std::array<uint8_t, 32> network{};  // ranks that have the same one share their addresses
  std::string host;                   // its name, for people
  std::vector<HostAddress> all;       // those that may be used first, best first
  uint8_t usable = 0;                 // so many of them
  bool chosen = false;                // BANYAN_SOCKET_IFNAME names the interface of those
  bool operator==(const HostAddresses&) const = default;
};

// Lists those of the interfaces that are up, in this order: `met`, by which this rank has reached
// the others before; what leads to the default route; what is no bridge; bridges; loopback. A
// link-local address may be used only where ranks met by it, or where the interface of
// BANYAN_SOCKET_IFNAME has no other.
Result<HostAddresses> host_addresses(const Environment& environment,
                                     const std::optional<Address>& met);

// Gives the addresses to listen on before anything is known of other hosts, best first, at least
// one, with port 0.
//
//   BANYAN_SOCKET_IFNAME is not set, `fallback_loopback`   127.0.0.1
//   BANYAN_SOCKET_IFNAME names loopback                    loopback
//   otherwise                                              those that may be used
//
// kInvalidArgument: the interface that it names has none.
Result<std::vector<Address>> listening_addresses(const Environment& environment,
                                                 bool fallback_loopback);
// Gives the best of them.
Result<Address> listening_address(const Environment& environment, bool fallback_loopback);

// Names the interface of this host that has it; empty: none has.
std::string interface_with(const Address& address);

// `found` in the system's order. `outward`: the addresses from which packets for elsewhere leave.
HostAddresses in_order(std::vector<HostAddress> found, const std::string& chosen,
                       const std::optional<Address>& met, std::span<const Address> outward);

// Knows which addresses lead where, among ranks that have told each other theirs.
class AddressBook {
 public:
  explicit AddressBook(std::span<const HostAddresses> ranks);

  // Finds the first usable address of a rank that leads there from all others. The error has its
  // addresses and why none does.
  Result<HostAddress> way_to(int rank) const;
  // Lists those of that rank's host that have addresses. None where all ranks share one network.
  // A bridge in whose network no other host is leads nowhere, either.
  std::vector<Interface> interfaces(int rank) const;

 private:
  using Ip = std::pair<bool, std::array<uint8_t, 16>>;
  // Two networks are kept at most, which tells as much as all of them.
  struct Holder {
    size_t rank = 0;
    const HostAddress* address = nullptr;
  };
  // Says why it does not lead there; empty: it does.
  std::string why_not(const HostAddresses& host, const Address& address) const;
  bool has_neighbours(const HostAddresses& host, const HostAddress& of) const;

  std::span<const HostAddresses> ranks_;
  std::map<Ip, std::vector<Holder>> holders_;
  std::array<std::optional<size_t>, 2> without_;  // a rank that has no address of IPv4, of IPv6
  bool one_network_ = true;
};

}  // namespace banyan
