// Addresses by which hosts reach each other, numeric and as text.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

// IPv4 or IPv6.
struct Address {
  bool v6 = false;
  std::array<uint8_t, 16> ip{};  // network order; IPv4 uses the first four
  uint16_t port = 0;

  bool loopback() const;
  // It counts on one cable only (169.254/16, fe80::/10), and many hosts may have the same one.
  bool link_local() const;
  std::string host() const;  // "127.0.0.1", "::1"
  std::string text() const;  // "127.0.0.1:4711", "[::1]:4711"
  bool operator==(const Address&) const = default;
};

// Takes the address out of a name of the system's, without its port. An IPv4 address that is mapped
// into IPv6 comes as IPv4. Other families give nothing, as does fe80::/10, which means nothing to
// other hosts without the name of an interface of theirs.
std::optional<Address> address_in(const sockaddr* name);

// Reads "HOST:PORT" and resolves names. kInvalidArgument says what is malformed.
Result<Address> resolve(std::string_view host_and_port);

}  // namespace banyan
