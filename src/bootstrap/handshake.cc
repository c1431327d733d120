// The handshake and the sessions it leads to.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/handshake.h"

#include <fmt/format.h>

#include <limits>

namespace banyan {
namespace {

constexpr std::string_view kHelloLabel = "banyan hello of a client";
constexpr std::string_view kChallengeLabel = "banyan challenge of a server";
constexpr std::string_view kResponseLabel = "banyan response of a client";

Status refuse(std::string_view what) {
  return {Code::kCorrupt, fmt::format("{} is not from a side that knows the secret", what)};
}

Mac mac_over(const Key& key, std::string_view label, std::initializer_list<Nonce> nonces,
             std::span<const std::byte> frame) {
  Writer context;
  for (const Nonce& nonce : nonces) context.put_raw(nonce);
  context.put_raw(frame);
  return authenticate(key, label, context.bytes());
}

Bytes make_frame(const FrameHeader& header, std::span<const std::byte> payload) {
  Bytes frame = encode_header(header);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

void append(Bytes& frame, const Mac& mac) {
  frame.insert(frame.end(), mac.begin(), mac.end());
}

FrameHeader header_of(FrameType type, size_t length, uint32_t epoch, uint32_t sequence, int rank) {
  return {.type = type,
          .length = static_cast<uint32_t>(length),
          .epoch = epoch,
          .sequence = sequence,
          .rank = rank};
}

Key session_key(const HandshakeTerms& terms, const Nonce& client, const Nonce& server,
                const Bytes& joiner) {
  Writer context;
  context.put_raw(client);
  context.put_raw(server);
  context.put(terms.epoch);
  context.put(static_cast<int32_t>(terms.server_rank));
  context.put_raw(joiner);
  return derive_key(terms.key, "session", context.bytes());
}

}  // namespace

Bytes Session::seal(FrameType type, uint32_t epoch, std::span<const std::byte> payload) {
  Bytes frame = make_frame(header_of(type, payload.size(), epoch, sent_, rank_), payload);
  append(frame,
         authenticate(key_, server_ ? "banyan to the client" : "banyan to the server", frame));
  ++sent_;  // not where there was no memory for it
  return frame;
}

Status Session::open(const Frame& frame) {
  const Mac expected = authenticate(key_, server_ ? "banyan to the server" : "banyan to the client",
                                    frame.before_mac());
  if (!equal(expected, frame.mac())) return refuse("a frame");
  if (frame.header.sequence != received_ || received_ == std::numeric_limits<uint32_t>::max()) {
    return {Code::kCorrupt,
            fmt::format("frame {} came where frame {} belongs", frame.header.sequence, received_)};
  }
  ++received_;
  return {};
}

Result<ClientHandshake> ClientHandshake::create(const HandshakeTerms& terms, const Joiner& joiner) {
  const auto nonce = random_key();
  if (!nonce.ok()) return nonce.status();
  ClientHandshake client;
  client.terms_ = terms;
  client.joiner_ = joiner;
  client.nonce_ = *nonce;
  client.hello_ =
      make_frame(header_of(FrameType::kHello, client.nonce_.size(), terms.epoch, 0, joiner.rank),
                 client.nonce_);
  append(client.hello_, mac_over(terms.key, kHelloLabel, {}, client.hello_));
  return client;
}

Result<Bytes> ClientHandshake::respond(const Frame& challenge) {
  const Mac expected = mac_over(terms_.key, kChallengeLabel, {nonce_}, challenge.before_mac());
  if (!equal(expected, challenge.mac()) || challenge.header.type != FrameType::kChallenge ||
      challenge.header.epoch != terms_.epoch || challenge.header.rank != terms_.server_rank) {
    return refuse("a challenge");
  }
  const auto server_nonce = parse_nonce(challenge.payload());
  if (!server_nonce.ok()) return server_nonce.status();
  const Bytes joiner = encode_joiner(joiner_);
  Bytes response = make_frame(
      header_of(FrameType::kResponse, joiner.size(), terms_.epoch, 1, joiner_.rank), joiner);
  append(response, mac_over(terms_.key, kResponseLabel, {nonce_, *server_nonce}, response));
  session_ = Session(session_key(terms_, nonce_, *server_nonce, joiner), false, joiner_.rank);
  return response;
}

Status ClientHandshake::welcome(const Frame& frame) {
  BANYAN_TRY(session_.open(frame));
  if (frame.header.type != FrameType::kWelcome || frame.header.epoch != terms_.epoch) {
    return refuse("a welcome");
  }
  return {};
}

Result<ServerHandshake> ServerHandshake::create(const HandshakeTerms& terms) {
  const auto nonce = random_key();
  if (!nonce.ok()) return nonce.status();
  ServerHandshake server;
  server.terms_ = terms;
  server.nonce_ = *nonce;
  return server;
}

Result<Bytes> ServerHandshake::challenge(const Frame& hello) {
  const Mac expected = mac_over(terms_.key, kHelloLabel, {}, hello.before_mac());
  if (!equal(expected, hello.mac()) || hello.header.type != FrameType::kHello ||
      hello.header.epoch != terms_.epoch) {
    return refuse("a hello");
  }
  const auto client_nonce = parse_nonce(hello.payload());
  if (!client_nonce.ok()) return client_nonce.status();
  client_nonce_ = *client_nonce;
  Bytes challenge = make_frame(
      header_of(FrameType::kChallenge, nonce_.size(), terms_.epoch, 0, terms_.server_rank), nonce_);
  append(challenge, mac_over(terms_.key, kChallengeLabel, {client_nonce_}, challenge));
  return challenge;
}

Result<Joiner> ServerHandshake::admit(const Frame& response) {
  const Mac expected =
      mac_over(terms_.key, kResponseLabel, {client_nonce_, nonce_}, response.before_mac());
  if (!equal(expected, response.mac()) || response.header.type != FrameType::kResponse ||
      response.header.epoch != terms_.epoch) {
    return refuse("a response");
  }
  const auto joiner = parse_joiner(response.payload());
  if (!joiner.ok()) return joiner.status();
  if (joiner->rank != response.header.rank) return refuse("a response");
  const auto payload = response.payload();
  session_ =
      Session(session_key(terms_, client_nonce_, nonce_, Bytes(payload.begin(), payload.end())),
              true, terms_.server_rank);
  return *joiner;
}

Bytes other_version() {
  return encode_header(header_of(FrameType::kOtherVersion, 0, 0, 0, -1));
}

}  // namespace banyan
