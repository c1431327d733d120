// Every connection between ranks starts with this mutual challenge and response, as state machines
// over frames; no I/O.
//
//     client                                          server
//     kHello { client nonce }              ->
//                                          <-         kChallenge { server nonce }
//     kResponse { rank, size, ... }        ->
//                                          <-         kWelcome {}
//
// Each MAC is made with the key that both know, and covers
//
//   what it is for                      so that nothing can be sent back to where it came from
//   both nonces, as far as they exist   so that nothing old is of use
//   the whole frame
//
// The kWelcome is the first frame under a session key, which depends on both nonces. From then on a
// frame carries its place in its direction.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "banyan/status.h"
#include "src/bootstrap/authentication.h"
#include "src/bootstrap/frame.h"

namespace banyan {

// What two sides share after a handshake.
class Session {
 public:
  Session() = default;
  Session(const Key& key, bool server, int rank) : key_(key), server_(server), rank_(rank) {}

  // The next frame of this direction.
  Bytes seal(FrameType type, uint32_t epoch, std::span<const std::byte> payload);
  // kCorrupt unless it is the next frame of the other direction.
  Status open(const Frame& frame);

 private:
  Key key_{};
  bool server_ = false;
  int rank_ = -1;  // of this side
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

// What both sides must know before.
struct HandshakeTerms {
  Key key{};
  uint32_t epoch = 0;
  int server_rank = -1;
};

class ClientHandshake {
 public:
  // kSystem: no random bytes.
  static Result<ClientHandshake> create(const HandshakeTerms& terms, const Joiner& joiner);

  const Bytes& hello() const { return hello_; }
  // The response to a challenge. kCorrupt: it is not from who knows the key.
  Result<Bytes> respond(const Frame& challenge);
  // After respond(). The server's first frame.
  Status welcome(const Frame& frame);
  const Session& session() const { return session_; }

 private:
  HandshakeTerms terms_;
  Joiner joiner_;
  Nonce nonce_{};
  Bytes hello_;
  Session session_;
};

class ServerHandshake {
 public:
  static Result<ServerHandshake> create(const HandshakeTerms& terms);

  // The challenge for a hello. kCorrupt: it is not from who knows the key.
  Result<Bytes> challenge(const Frame& hello);
  // After challenge().
  Result<Joiner> admit(const Frame& response);
  // After admit().
  Bytes welcome() { return session_.seal(FrameType::kWelcome, terms_.epoch, {}); }
  const Session& session() const { return session_; }

 private:
  HandshakeTerms terms_;
  Nonce client_nonce_{};
  Nonce nonce_{};
  Session session_;
};

// For a client of another version, which cannot read anything but a header.
Bytes other_version();

}  // namespace banyan
