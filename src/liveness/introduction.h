// Ranks tell each other this before they link: who they are, then where they listen. Pure
// functions, no I/O.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/bootstrap/authentication.h"
#include "src/bootstrap/host_addresses.h"

namespace banyan {

// A process, told apart from every other one that runs or ran on its host.
struct ProcessIdentity {
  uint64_t pid = 0;
  uint64_t started = 0;        // clock ticks since boot
  uint64_t pid_namespace = 0;  // of process ids
  bool operator==(const ProcessIdentity&) const = default;
};

struct Introduction {
  Nonce nonce{};
  std::array<uint8_t, 32> host_digest{};
  std::string host_name;
  ProcessIdentity process;
  HostAddresses addresses;  // its host is host_name
  bool operator==(const Introduction&) const = default;
};
Bytes encode_introduction(const Introduction& introduction);
Result<Introduction> parse_introduction(std::span<const std::byte> bytes);

using LocalName = std::array<std::byte, 16>;

struct Whereabouts {
  std::optional<LocalName> local;  // an abstract AF_UNIX name is made of it
  std::optional<Address> remote;
  bool operator==(const Whereabouts&) const = default;
};
Bytes encode_whereabouts(const Whereabouts& whereabouts);
Result<Whereabouts> parse_whereabouts(std::span<const std::byte> bytes);

}  // namespace banyan
