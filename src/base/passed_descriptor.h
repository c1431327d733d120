// One descriptor that travels with a message of an AF_UNIX socket.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "src/base/descriptor.h"

namespace banyan {

// It lives as long as the message.
class PassedDescriptor {
 public:
  // Before sendmsg().
  void attach(msghdr* message, const Descriptor& descriptor) {
    message->msg_control = control_;
    message->msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = descriptor.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof number);
  }
  // Before recvmsg() with MSG_CMSG_CLOEXEC.
  void make_room(msghdr* message) {
    message->msg_control = control_;
    message->msg_controllen = sizeof control_;
  }
  // After it. Invalid: none has come. Those that came are this process's, whatever they are: all
  // but the first are closed.
  static Descriptor detach(msghdr* message) {
    Descriptor first;
    for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
         header = CMSG_NXTHDR(message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const size_t bytes = header->cmsg_len - CMSG_LEN(0);
      for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
        int number = -1;
        std::memcpy(&number, CMSG_DATA(header) + at, sizeof number);
        Descriptor come(number);
        if (!first.valid()) first = std::move(come);
      }
    }
    return first;
  }

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(2 * sizeof(int))] = {};
};

}  // namespace banyan
