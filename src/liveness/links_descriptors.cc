// Passing file descriptors between processes of one host.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "src/base/system_error.h"
#include "src/bootstrap/frame_socket.h"
#include "src/liveness/links.h"

namespace banyan {
namespace {

constexpr size_t kMost = 253;  // at once, as the kernel has it (SCM_MAX_FD)
constexpr char kMark = 'D';    // the byte that they come with

}  // namespace

Status send_descriptors(int socket, std::span<const int> descriptors) {
  if (descriptors.empty() || descriptors.size() > kMost) {
    return {Code::kInvalidArgument, fmt::format("1 to {} descriptors can be sent at once, not {}",
                                                kMost, descriptors.size())};
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
  char byte = kMark;
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  while (true) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) == 1) return {};
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Only a receiver that has stopped reading fills the socket up.
      return {Code::kBusy, "the socket is full"};
    }
    if (errno == EPIPE || errno == ECONNRESET) {
      return {Code::kPeerLost,
              fmt::format("sending descriptors: {}", std::generic_category().message(errno))};
    }
    if (errno == ETOOMANYREFS) {
      return {Code::kBusy,
              "the user has more descriptors under way to other processes than the "
              "limit of open files (ulimit -n)"};
    }
    if (errno != EINTR) return system_error("sending descriptors", errno);
  }
}

Result<std::vector<Descriptor>> receive_descriptors(int socket, size_t count, TimePoint deadline) {
  if (count == 0 || count > kMost) {
    return Status(Code::kInvalidArgument,
                  fmt::format("1 to {} descriptors can be received at once, not {}", kMost, count));
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))];
  char byte = 0;
  iovec data{&byte, 1};
  msghdr message{};
  while (true) {
    if (!wait_for(socket, POLLIN, deadline)) {
      return Status(Code::kTimeout, "no descriptors have come within the time limit");
    }
    message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got == 1) break;
    if (got == 0) return Status(Code::kPeerLost, "the connection was closed");
    if (errno == ECONNRESET) return Status(Code::kPeerLost, std::generic_category().message(errno));
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      Status failed = system_error("receiving descriptors", errno);
      (void)::recv(socket, &byte, 1, MSG_DONTWAIT);  // else it would be part of what comes next
      return failed;
    }
  }
  std::vector<Descriptor> received;
  Status failed;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
      received.emplace_back(descriptor);
      if (!received.back().valid() && failed.ok())
        failed = system_error("receiving descriptors", errno);
    }
  }
  BANYAN_TRY(failed);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Status(
        Code::kSystem,
        fmt::format("only {} of {} descriptors could be received: the limit of open files "
                    "(ulimit -n) is too low, or a security policy forbids it",
                    received.size(), count));
  }
  if (byte != kMark || received.size() != count) {
    return Status(Code::kCorrupt,
                  fmt::format("{} descriptors came, {} were expected", received.size(), count));
  }
  return received;
}

}  // namespace banyan
