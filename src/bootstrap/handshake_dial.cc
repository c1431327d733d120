// The client's end of a connection.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/handshake_dial.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <system_error>

#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {

Result<Dial> Dial::create(Descriptor socket, const HandshakeTerms& terms, const Joiner& joiner) {
  auto handshake = ClientHandshake::create(terms, joiner);
  if (!handshake.ok()) return handshake.status();
  return Dial(std::move(socket), std::move(*handshake));
}

short Dial::events() const {
  if (state_ == State::kConnect) return POLLOUT;
  return static_cast<short>(socket_.all_sent() ? POLLIN : POLLIN | POLLOUT);
}

Result<bool> Dial::advance() {
  if (state_ == State::kConnect) {
    pollfd entry{socket_.descriptor(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) == 0) return false;
    const int error = connect_result(socket_.descriptor());
    if (error != 0) {
      refused_ = error == ECONNREFUSED;
      return Status(Code::kSystem, std::generic_category().message(error));
    }
    BANYAN_TRY(socket_.write(handshake_.hello()));
    state_ = State::kHello;
  }
  BANYAN_TRY(socket_.flush());
  while (state_ != State::kDone) {
    const auto frame = socket_.read(kHandshakePayloadMost);
    if (!frame.ok()) return frame.status();
    if (!frame->has_value()) return false;
    if (state_ == State::kHello) {
      auto response = handshake_.respond(**frame);
      if (!response.ok()) return response.status();
      BANYAN_TRY(socket_.write(std::move(*response)));
      state_ = State::kResponse;
    } else {
      BANYAN_TRY(handshake_.welcome(**frame));
      state_ = State::kDone;
    }
  }
  return true;
}

}  // namespace banyan
