// The client's end of a connection: connects and shakes hands without ever blocking.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "banyan/status.h"
#include "src/bootstrap/frame_socket.h"
#include "src/bootstrap/handshake.h"

namespace banyan {

class Dial {
 public:
  // `socket` is non-blocking and connected, or about to be.
  static Result<Dial> create(Descriptor socket, const HandshakeTerms& terms, const Joiner& joiner);

  int descriptor() const { return socket_.descriptor(); }
  short events() const;  // what to wait for before the next advance()

  // Gives true once welcomed. Any failure ends this attempt:
  //
  //   kSystem                              nothing could be connected; it has the cause
  //   kPeerLost, kCorrupt, kUnsupported    the other side closed or is none of ours
  Result<bool> advance();
  bool refused() const { return refused_; }  // nobody listens there
  // The other side has shown that it knows the key.
  bool answered() const { return state_ == State::kResponse || state_ == State::kDone; }

  // After success.
  FrameSocket take_socket() { return std::move(socket_); }
  const Session& session() const { return handshake_.session(); }

 private:
  enum class State { kConnect, kHello, kResponse, kDone };

  Dial(Descriptor socket, ClientHandshake handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  State state_ = State::kConnect;
  FrameSocket socket_;
  ClientHandshake handshake_;
  bool refused_ = false;
};

}  // namespace banyan
