// Addresses: as text, and by name.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "src/base/parse.h"

namespace banyan {
namespace {

Status malformed(std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' is not HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:4711 "
                      "or [::1]:4711",
                      text)};
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

bool Address::link_local() const {
  return v6 ? ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80 : ip[0] == 169 && ip[1] == 254;
}

std::string Address::host() const {
  char buffer[INET6_ADDRSTRLEN] = "";
  (void)::inet_ntop(v6 ? AF_INET6 : AF_INET, ip.data(), buffer, sizeof buffer);
  return buffer;
}

std::string Address::text() const {
  return v6 ? fmt::format("[{}]:{}", host(), port) : fmt::format("{}:{}", host(), port);
}

std::optional<Address> address_in(const sockaddr* name) {
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
    const auto address = address_in(entry->ai_addr);
    if (address && (!chosen || (chosen->v6 && !address->v6))) chosen = address;
  }
  if (!chosen) return malformed(host_and_port);
  chosen->port = static_cast<uint16_t>(*port);
  return *chosen;
}

}  // namespace banyan
