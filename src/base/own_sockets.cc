// SPDX-License-Identifier: Apache-2.0

#include "src/base/own_sockets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/process.h"

namespace banyan {

// The numbers stay taken, since what holds them in the child may close them.
void SocketRegistry::give_up_in_child() {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int socket : sockets) {
    if (!nothing.valid() || ::dup3(nothing.get(), socket, O_CLOEXEC) < 0) ::close(socket);
  }
  sockets.clear();  // what it opens itself may get such a number, and it may fork, too
}

OwnSockets::OwnSockets(std::span<const Descriptor> sockets) {
  for (const Descriptor& socket : sockets)
    if (socket.valid()) sockets_.push_back(socket.get());
  SocketRegistry& registry = process().sockets;
  const std::lock_guard lock(registry.mutex);
  registry.sockets.insert(registry.sockets.end(), sockets_.begin(), sockets_.end());
}

OwnSockets::~OwnSockets() {
  SocketRegistry& registry = process().sockets;
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.sockets, [&](int socket) {
    return std::find(sockets_.begin(), sockets_.end(), socket) != sockets_.end();
  });
}

}  // namespace banyan
