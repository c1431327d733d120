// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/host_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>

#include "src/base/descriptor.h"
#include "src/base/system_error.h"

namespace banyan {
namespace {

bool is_bridge(const std::string& interface) {
  return ::access(fmt::format("/sys/class/net/{}/bridge", interface).c_str(), F_OK) == 0;
}

uint8_t bits_of(const Address& mask) {
  int bits = 0;
  for (const uint8_t byte : mask.ip) bits += std::popcount(byte);
  return static_cast<uint8_t>(bits);
}

bool in_network(const Address& address, const HostAddress& of) {
  if (address.v6 != of.address.v6) return false;
  for (size_t bit = 0; bit < std::min<size_t>(of.bits, address.v6 ? 128 : 32); ++bit) {
    const auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    if (((address.ip[bit / 8] ^ of.address.ip[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

Result<std::vector<HostAddress>> addresses_that_are_up() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<HostAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = address_in(entry->ifa_addr);
    if (!address) continue;
    const auto mask = address_in(entry->ifa_netmask);
    found.push_back({entry->ifa_name, *address, mask ? bits_of(*mask) : uint8_t{128},
                     is_bridge(entry->ifa_name)});
  }
  return found;
}

// Asks from where packets to an address of nobody would leave: by the default route. None is sent.
std::vector<Address> outward_addresses() {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(9);
  (void)::inet_pton(AF_INET, "192.0.2.1", &v4.sin_addr);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(9);
  (void)::inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
  const auto leave_for = [](const sockaddr* name, socklen_t size) -> std::optional<Address> {
    const Descriptor socket(::socket(name->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.valid() || ::connect(socket.get(), name, size) != 0) return std::nullopt;
    sockaddr_storage own{};
    size = sizeof own;
    auto* const place = reinterpret_cast<sockaddr*>(&own);
    if (::getsockname(socket.get(), place, &size) != 0) return std::nullopt;
    return address_in(place);
  };
  std::vector<Address> found;
  for (const auto& one : {leave_for(reinterpret_cast<const sockaddr*>(&v4), sizeof v4),
                          leave_for(reinterpret_cast<const sockaddr*>(&v6), sizeof v6)})
    if (one) found.push_back(*one);
  return found;
}

bool same_ip(const Address& a, const Address& b) {
  return a.v6 == b.v6 && a.ip == b.ip;
}

std::string text_of(const HostAddress& one) {
  return fmt::format("{} ({})", one.address.host(), one.interface);
}

}  // namespace

HostAddresses in_order(std::vector<HostAddress> found, const std::string& chosen,
                       const std::optional<Address>& met, std::span<const Address> outward) {
  const auto is_met = [&](const HostAddress& one) { return met && same_ip(*met, one.address); };
  const auto leads_out = [&](const HostAddress& one) {
    return std::any_of(outward.begin(), outward.end(),
                       [&](const Address& address) { return same_ip(address, one.address); });
  };
  const auto on_chosen = [&](const HostAddress& one) {
    return chosen.empty() || one.interface == chosen;
  };
  // The chosen interface counts also where it has nothing but a link-local address.
  const bool any_scope = !chosen.empty() && std::all_of(found.begin(), found.end(), [&](auto& one) {
    return one.interface != chosen || one.address.link_local();
  });
  const auto usable = [&](const HostAddress& one) {
    return on_chosen(one) && (!one.address.link_local() || is_met(one) || any_scope);
  };
  const auto place = [&](const HostAddress& one) {
    const int kind = is_met(one)              ? 0
                     : one.address.loopback() ? 4
                     : leads_out(one)         ? 1
                     : !one.bridge            ? 2
                                              : 3;
    return std::tuple(!usable(one), kind, one.address.v6);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const HostAddress& a, const HostAddress& b) { return place(a) < place(b); });
  if (found.size() > kHostAddressesMost) found.resize(kHostAddressesMost);
  for (HostAddress& one : found) one.bridge = one.bridge && !is_met(one) && !leads_out(one);
  HostAddresses made;
  made.chosen = !chosen.empty();
  made.usable = static_cast<uint8_t>(std::count_if(found.begin(), found.end(), usable));
  made.all = std::move(found);
  return made;
}

Result<HostAddresses> host_addresses(const Environment& environment,
                                     const std::optional<Address>& met) {
  auto found = addresses_that_are_up();
  BANYAN_TRY(found.status());
  return in_order(std::move(*found), environment.socket_interface, met, outward_addresses());
}

Result<std::vector<Address>> listening_addresses(const Environment& environment,
                                                 bool fallback_loopback) {
  std::vector<Address> addresses;
  if (environment.socket_interface.empty() && fallback_loopback) {
    addresses.emplace_back().ip = {127, 0, 0, 1};
    return addresses;
  }
  const auto here = host_addresses(environment, std::nullopt);
  BANYAN_TRY(here.status());
  if (here->chosen && here->usable == 0)
    return Status(Code::kInvalidArgument,
                  fmt::format("BANYAN_SOCKET_IFNAME={}: that interface is not up or has no address",
                              environment.socket_interface));
  for (const HostAddress& one : std::span(here->all).first(here->usable))
    if (here->chosen || !one.address.loopback()) addresses.push_back(one.address);
  if (!addresses.empty()) return addresses;
  return Status(Code::kSystem,
                "no network interface but loopback is up and has an address that other hosts can "
                "reach, and the ranks are on several hosts; name one with BANYAN_SOCKET_IFNAME");
}

Result<Address> listening_address(const Environment& environment, bool fallback_loopback) {
  const auto addresses = listening_addresses(environment, fallback_loopback);
  BANYAN_TRY(addresses.status());
  return addresses->front();
}

std::string interface_with(const Address& address) {
  const auto found = addresses_that_are_up();
  if (!found.ok()) return {};
  const auto one = std::find_if(found->begin(), found->end(), [&](const HostAddress& candidate) {
    return same_ip(candidate.address, address);
  });
  return one == found->end() ? std::string() : one->interface;
}

AddressBook::AddressBook(std::span<const HostAddresses> ranks) : ranks_(ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostAddresses& host = ranks[rank];
    one_network_ = one_network_ && host.network == ranks.front().network;
    std::array<bool, 2> has{};
    for (const HostAddress& one : host.all) {
      if (!one.address.loopback() && !one.address.link_local()) has[one.address.v6 ? 1 : 0] = true;
      std::vector<Holder>& holders = holders_[{one.address.v6, one.address.ip}];
      if (holders.empty() ||
          (holders.size() == 1 && ranks[holders.front().rank].network != host.network))
        holders.push_back({rank, &one});
    }
    for (size_t family = 0; family < has.size(); ++family)
      if (!has[family] && !without_[family]) without_[family] = rank;
  }
}

std::string AddressBook::why_not(const HostAddresses& host, const Address& address) const {
  if (one_network_) return {};
  if (address.loopback()) return "is loopback";
  const auto found = holders_.find({address.v6, address.ip});
  for (const Holder& holder : found == holders_.end() ? std::vector<Holder>() : found->second)
    if (ranks_[holder.rank].network != host.network)
      return fmt::format("is an address of rank {}'s host, too ({}, {})", holder.rank,
                         ranks_[holder.rank].host, holder.address->interface);
  const auto without = without_[address.v6 ? 1 : 0];
  if (without && !address.link_local() && ranks_[*without].network != host.network)
    return fmt::format("cannot be reached from rank {}'s host ({}), which has no {} address",
                       *without, ranks_[*without].host, address.v6 ? "IPv6" : "IPv4");
  return {};
}

bool AddressBook::has_neighbours(const HostAddresses& host, const HostAddress& of) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const auto& entry) {
    const std::vector<Holder>& holders = entry.second;
    const bool elsewhere = holders.size() == 1 && ranks_[holders[0].rank].network != host.network;
    return elsewhere && in_network(holders[0].address->address, of);
  });
}

Result<HostAddress> AddressBook::way_to(int rank) const {
  const HostAddresses& host = ranks_[static_cast<size_t>(rank)];
  std::string reasons;
  for (size_t i = 0; i < host.all.size(); ++i) {
    const HostAddress& one = host.all[i];
    std::string why = why_not(host, one.address);
    if (i < host.usable && why.empty()) return one;
    if (host.chosen && i >= host.usable) break;
    if (i >= host.usable) why = "is link-local";
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : "; ", text_of(one), why);
  }
  const std::string advice =
      host.chosen && host.usable == 0
          ? "the interface that BANYAN_SOCKET_IFNAME names there is not up or has no address"
      : host.chosen
          ? fmt::format(
                "BANYAN_SOCKET_IFNAME={} chooses it there: name another interface, or unset "
                "it",
                host.all.front().interface)
          : "give the host an address that no other has; BANYAN_SOCKET_IFNAME names the interface "
            "where there are several";
  return Status(host.chosen ? Code::kInvalidArgument : Code::kSystem,
                fmt::format("no address leads from the other hosts to rank {} ({}): {}; {}", rank,
                            host.host, reasons.empty() ? "it has none" : reasons, advice));
}

std::vector<Interface> AddressBook::interfaces(int rank) const {
  std::vector<Interface> found;
  if (one_network_) return found;
  const HostAddresses& host = ranks_[static_cast<size_t>(rank)];
  for (size_t i = 0; i < host.all.size(); ++i) {
    const HostAddress& one = host.all[i];
    std::string why = why_not(host, one.address);
    if (why.empty() && one.address.link_local() && i >= host.usable) why = "is link-local";
    if (why.empty() && one.bridge && !has_neighbours(host, one))
      why = fmt::format("is of a bridge, in whose network (/{}) no other host is", one.bits);
    if (!why.empty()) why = fmt::format("{} {}", one.address.host(), why);
    const auto known = std::find_if(found.begin(), found.end(), [&](const Interface& other) {
      return other.name == one.interface;
    });
    if (known == found.end())
      found.push_back({one.interface, std::move(why), one.address.loopback()});
    else if (why.empty())
      known->dead_end.clear();
  }
  return found;
}

}  // namespace banyan
