// A port of loopback that nothing listens at, for ranks that are told an address.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "src/base/descriptor.h"

namespace banyan::test {

// Returns 0 where there is none.
inline int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 0;
  return ntohs(address.sin_port);
}

}  // namespace banyan::test
