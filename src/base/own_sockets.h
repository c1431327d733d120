// The end of these sockets tells a peer that this process has died. A child of fork() would hold
// them open for as long as it lives, so it gets /dev/null in their place.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "src/base/descriptor.h"

namespace banyan {

// All of this process. A part of the process-wide state, which tells it of forks.
struct SocketRegistry {
  std::mutex mutex;  // held during a fork
  std::vector<int> sockets;

  void give_up_in_child();
};

// Keeps these sockets from children of this process while it lives. Thread-safe.
class OwnSockets {
 public:
  // Invalid ones are passed by. They must stay open as long as this.
  explicit OwnSockets(std::span<const Descriptor> sockets);
  OwnSockets(const OwnSockets&) = delete;
  OwnSockets& operator=(const OwnSockets&) = delete;
  ~OwnSockets();

 private:
  std::vector<int> sockets_;
};

}  // namespace banyan
