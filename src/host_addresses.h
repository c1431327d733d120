// The addresses that hosts have, and which of them lead from one host to another.
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
#include "src/address.h"
#include "src/base/environment.h"
#include "src/base/interface.h"

namespace banyan {

inline constexpr size_t kHostAddressesMost = 64;

struct HostAddress {
  std::string interface;
  Address address;  // the port is 0
  // Of this host alone, not told to others: how many bits its network has, and whether that is
  // behind a bridge by which nothing goes out, as those of containers and virtual machines.
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

// Those of the interfaces that are up, as far as they are of use: `met`, by which this rank has
// reached the others before, then what leads to the default route, then what is no bridge; then
// bridges and loopback. A link-local address is used only where ranks met by it, or where it is all
// that the interface of BANYAN_SOCKET_IFNAME has.
Result<HostAddresses> host_addresses(const Environment& environment,
                                     const std::optional<Address>& met);

// The address to listen on before anything is known of other hosts: `fallback_loopback` and no
// BANYAN_SOCKET_IFNAME: 127.0.0.1; else the best that there is. The port is 0. kInvalidArgument:
// that interface has none.
Result<Address> listening_address(const Environment& environment, bool fallback_loopback);

// The interface of this host that has it; empty: none.
std::string interface_with(const Address& address);

// ---- Its parts, pure ----------------------------------------------------------------------------

// `found` in the system's order. `outward`: the addresses from which packets for elsewhere leave.
HostAddresses in_order(std::vector<HostAddress> found, const std::string& chosen,
                       const std::optional<Address>& met, std::span<const Address> outward);

// Which addresses lead where, among ranks that have told each other theirs.
class AddressBook {
 public:
  explicit AddressBook(std::span<const HostAddresses> ranks);

  // The first usable address of a rank that leads there from all others. The error has its
  // addresses and why none does.
  Result<HostAddress> way_to(int rank) const;
  // Of the host of that rank, those that have addresses. None where all ranks share one network.
  // A bridge in whose network no other host is leads nowhere, either.
  std::vector<Interface> interfaces(int rank) const;

 private:
  using Ip = std::pair<bool, std::array<uint8_t, 16>>;
  // Of two networks at most, which is as good as of all.
  struct Holder {
    size_t rank = 0;
    const HostAddress* address = nullptr;
  };
  // Empty: it leads there.
  std::string why_not(const HostAddresses& host, const Address& address) const;
  bool has_neighbours(const HostAddresses& host, const HostAddress& of) const;

  std::span<const HostAddresses> ranks_;
  std::map<Ip, std::vector<Holder>> holders_;
  std::array<std::optional<size_t>, 2> without_;  // a rank that has no address of IPv4, of IPv6
  bool one_network_ = true;
};

}  // namespace banyan
