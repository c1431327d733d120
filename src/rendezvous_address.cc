// Addresses: as text, by name, of this machine's interfaces.
// SPDX-License-Identifier: Apache-2.0

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "src/base/parse.h"
#include "src/base/system_error.h"
#include "src/rendezvous.h"

namespace banyan {
namespace {

Status malformed(std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' is not HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:4711 "
                      "or [::1]:4711",
                      text)};
}

std::optional<Address> address_of(const sockaddr* name) {
  Address address;
  if (name == nullptr) return std::nullopt;
  if (name->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, name, sizeof v4);
    std::memcpy(address.ip.data(), &v4.sin_addr, 4);
    return address;
  }
  if (name->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, name, sizeof v6);
    // A link-local address means nothing to other hosts without the name of an interface of theirs.
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return std::nullopt;
    // Mapped, it is an IPv4 address.
    address.v6 = !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&v6.sin6_addr);
    std::copy(bytes + (address.v6 ? 0 : 12), bytes + 16, address.ip.begin());
    return address;
  }
  return std::nullopt;
}

struct Interface {
  std::string interface;
  bool loopback = false;
  Address address;
};

Result<std::vector<Interface>> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return system_error("getifaddrs", errno);
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = address_of(entry->ifa_addr);
    if (!address) continue;
    found.push_back({entry->ifa_name, (entry->ifa_flags & IFF_LOOPBACK) != 0, *address});
  }
  // In the system's order, IPv4 first.
  std::stable_sort(found.begin(), found.end(), [](const Interface& a, const Interface& b) {
    return !a.address.v6 && b.address.v6;
  });
  return found;
}

}  // namespace

bool Address::loopback() const {
  if (!v6) return ip[0] == 127;
  const bool v4_in_v6 =
      std::all_of(ip.begin(), ip.begin() + 10, [](uint8_t b) { return b == 0; }) &&
      ip[10] == 0xff && ip[11] == 0xff;
  if (v4_in_v6) return ip[12] == 127;
  return std::all_of(ip.begin(), ip.begin() + 15, [](uint8_t b) { return b == 0; }) && ip[15] == 1;
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = "";
  (void)::inet_ntop(v6 ? AF_INET6 : AF_INET, ip.data(), buffer, sizeof buffer);
  return v6 ? fmt::format("[{}]:{}", buffer, port) : fmt::format("{}:{}", buffer, port);
}

Result<Address> resolve(std::string_view host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string_view::npos) return malformed(host_and_port);
  std::string_view host = host_and_port.substr(0, colon);
  const auto port = parse_integer(host_and_port.substr(colon + 1), 1, 65535);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed(host_and_port);  // an IPv6 address without brackets
  }
  if (!port.ok() || host.empty() || host.size() > 255) return malformed(host_and_port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(std::string(host).c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("host '{}' of '{}': {}", host, host_and_port,
                              error == EAI_SYSTEM ? std::generic_category().message(errno)
                                                  : std::string(::gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::optional<Address> chosen;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const auto address = address_of(entry->ai_addr);
    if (address && (!chosen || (chosen->v6 && !address->v6))) chosen = address;
  }
  if (!chosen) return malformed(host_and_port);
  chosen->port = static_cast<uint16_t>(*port);
  return *chosen;
}

Result<Address> listening_address(const Environment& environment, bool fallback_loopback) {
  const std::string& wanted = environment.socket_interface;
  if (wanted.empty() && fallback_loopback) {
    Address loopback;
    loopback.ip = {127, 0, 0, 1};
    return loopback;
  }
  const auto found = interfaces();
  if (!found.ok()) return found.status();
  for (const Interface& candidate : *found) {
    if (wanted.empty() ? !candidate.loopback : candidate.interface == wanted) {
      return candidate.address;
    }
  }
  if (wanted.empty()) {
    return Status(Code::kSystem,
                  "no network interface but loopback is up, and the ranks are on several hosts; "
                  "name one with BANYAN_SOCKET_IFNAME");
  }
  return Status(
      Code::kInvalidArgument,
      fmt::format("BANYAN_SOCKET_IFNAME={}: that interface is not up or has no address", wanted));
}

}  // namespace banyan
