// A place to which other processes of this host send descriptors: a datagram socket of AF_UNIX with
// an abstract name, so that nothing is left behind. All ranks of a host share its network
// namespace.
//
// Anybody there may see the name and write to it. What comes is told by its token, which only
// ranks know; a token is of no use twice.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "banyan/status.h"
#include "src/base/descriptor.h"

namespace banyan {

using MailboxName = std::array<std::byte, 16>;  // zeros: there is none
using MailToken = std::array<std::byte, 64>;

// Bytes that nobody can guess.
Status draw_random(std::span<std::byte> bytes);

class Mailbox {
 public:
  static Result<Mailbox> open();

  const MailboxName& name() const { return name_; }

  struct Letter {
    MailToken token{};
    Descriptor descriptor{};  // invalid: this process has no room for it
  };
  // What has come, or nothing; what is no letter is passed by.
  std::optional<Letter> take() const;

 private:
  Mailbox(const MailboxName& name, Descriptor socket);

  MailboxName name_{};
  Descriptor socket_;
};

// kBusy: the mailbox is full, or too many descriptors are under way.
Status send_descriptor(const MailboxName& to, const MailToken& token, const Descriptor& descriptor);

}  // namespace banyan
