// SPDX-License-Identifier: Apache-2.0

#include "src/own_sockets.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace banyan {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<int> sockets;
};

// Never destroyed: a process may fork while it ends.
Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

// The numbers stay taken, since what holds them in the child may close them.
void give_up_in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int socket : registry().sockets) {
    if (nothing < 0 || ::dup3(nothing, socket, O_CLOEXEC) < 0) ::close(socket);
  }
  if (nothing >= 0) ::close(nothing);
  registry().sockets.clear();  // what it opens itself may get such a number, and it may fork, too
  registry().mutex.unlock();
}

// Registered, and the registry made, before there are threads: the first use of something static
// has a lock, too.
[[maybe_unused]] const int sockets_heed_forks =
    (registry(), pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                                give_up_in_child));

}  // namespace

OwnSockets::OwnSockets(std::span<const Descriptor> sockets) {
  for (const Descriptor& socket : sockets)
    if (socket.valid()) sockets_.push_back(socket.get());
  const std::lock_guard lock(registry().mutex);
  registry().sockets.insert(registry().sockets.end(), sockets_.begin(), sockets_.end());
}

OwnSockets::~OwnSockets() {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().sockets, [&](int socket) {
    return std::find(sockets_.begin(), sockets_.end(), socket) != sockets_.end();
  });
}

}  // namespace banyan
