// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/mailbox.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/passed_descriptor.h"
#include "src/base/system_error.h"

namespace banyan {
namespace {

constexpr int kMostStrangers = 100;  // passed by at a time

struct MailAddress {
  sockaddr_un name{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

MailAddress mail_address(const MailboxName& name) {
  std::string text = "banyan-window-";
  for (const std::byte byte : name) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  MailAddress place;
  place.name.sun_family = AF_UNIX;
  std::memcpy(place.name.sun_path + 1, text.data(), text.size());
  place.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return place;
}

Result<Descriptor> mail_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
  return socket;
}

}  // namespace

Status draw_random(std::span<std::byte> bytes) {
  // Up to 256 bytes come whole, and no signal interrupts that.
  const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  if (got == static_cast<ssize_t>(bytes.size())) return {};
  return system_error("getrandom", got < 0 ? errno : EIO);
}

Mailbox::Mailbox(const MailboxName& name, Descriptor socket)
    : name_(name), socket_(std::move(socket)) {}

Result<Mailbox> Mailbox::open() {
  MailboxName name{};
  BANYAN_TRY(draw_random(name));
  Result<Descriptor> socket = mail_socket();
  BANYAN_TRY(socket.status());
  const MailAddress place = mail_address(name);
  if (::bind(socket->get(), place.get(), place.size) != 0)
    return system_error("cannot have an abstract AF_UNIX name", errno);
  return Mailbox(name, std::move(*socket));
}

std::optional<Mailbox::Letter> Mailbox::take() const {
  for (int strangers = 0; strangers < kMostStrangers; ++strangers) {
    Letter letter;
    PassedDescriptor passed;
    iovec data{letter.token.data(), letter.token.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    passed.make_room(&message);
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got < 0) continue;
    letter.descriptor = PassedDescriptor::detach(&message);
    const bool whole =
        got == static_cast<ssize_t>(letter.token.size()) && (message.msg_flags & MSG_TRUNC) == 0;
    if (whole) return letter;
  }
  return std::nullopt;
}

Status send_descriptor(const MailboxName& to, const MailToken& token,
                       const Descriptor& descriptor) {
  const Result<Descriptor> socket = mail_socket();
  BANYAN_TRY(socket.status());
  MailAddress place = mail_address(to);
  MailToken said = token;
  PassedDescriptor passed;
  iovec data{said.data(), said.size()};
  msghdr message{};
  message.msg_name = &place.name;
  message.msg_namelen = place.size;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  passed.attach(&message, descriptor);
  while (true) {
    const ssize_t sent = ::sendmsg(socket->get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(said.size())) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS)
      return {Code::kBusy, "the mailbox is full"};
    return system_error("sending a descriptor", errno);
  }
}

}  // namespace banyan
