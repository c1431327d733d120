// Keys, frames, handshakes: what strangers can send is refused, whatever it is.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/authentication.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>

#include "src/base/most_ranks.h"
#include "src/bootstrap/frame.h"
#include "src/bootstrap/handshake.h"
#include "src/liveness/introduction.h"

namespace banyan::authentication_test {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Key counting_key() {
  Key key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  return key;
}

// What arrives when a whole frame is sent.
Frame frame_of(const Bytes& bytes) {
  const auto header = parse_header(std::span(bytes).first(kHeaderSize), kPayloadMost);
  EXPECT_TRUE(header.ok()) << header.status().message();
  return {header.ok() ? *header : FrameHeader{}, bytes};
}

TEST(Authentication, IsHmacSha256OfLengthLabelAndContext) {
  // Computed with Python's hmac module.
  EXPECT_EQ(hex(authenticate(counting_key(), "label", bytes_of("context"))),
            "7ae77d4e78e2c41cccda3a6cdb3145d7825c86e03d05ff9fc751699a91e704c2");
  EXPECT_EQ(hex(key_of_text("tulip")),
            "b23c5a3a7b157ebcf97456d1a61af028345bb1da9eb121b03de63d4f917905a3");
}

TEST(Authentication, TellsLabelAndContextApart) {
  const Key key = counting_key();
  EXPECT_FALSE(
      equal(authenticate(key, "ab", bytes_of("c")), authenticate(key, "a", bytes_of("bc"))));
  EXPECT_FALSE(equal(authenticate(key, "x", {}), derive_key(key, "x", {})));
  EXPECT_TRUE(
      equal(authenticate(key, "ab", bytes_of("c")), authenticate(key, "ab", bytes_of("c"))));
}

TEST(Authentication, RandomKeysDiffer) {
  std::set<Key> keys;
  for (int i = 0; i < 100; ++i) {
    const auto key = random_key();
    ASSERT_TRUE(key.ok());
    keys.insert(*key);
  }
  EXPECT_EQ(keys.size(), 100u);
}

TEST(Frame, HeaderSurvivesTheTrip) {
  const FrameHeader header{FrameType::kResult, 65536, 7, 0xffffffff, 65535};
  const auto parsed = parse_header(encode_header(header), kPayloadMost);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, header);
}

TEST(Frame, RefusesOtherHeaders) {
  const auto refused = [](size_t at, uint8_t value) {
    Bytes bytes = encode_header({FrameType::kHello, 32, 0, 0, 3});
    bytes[at] = std::byte{value};
    return parse_header(bytes, kHandshakePayloadMost).status();
  };
  EXPECT_EQ(refused(0, 'X').code(), Code::kCorrupt);    // magic
  EXPECT_EQ(refused(4, 9).code(), Code::kUnsupported);  // version
  EXPECT_EQ(refused(6, 0).code(), Code::kCorrupt);      // type
  EXPECT_EQ(refused(6, 200).code(), Code::kCorrupt);
  EXPECT_EQ(refused(9, 1).code(), Code::kCorrupt);  // 256 bytes and more
  EXPECT_EQ(refused(11, 0xff).code(), Code::kCorrupt);
  EXPECT_EQ(refused(23, 0xff).code(), Code::kCorrupt);  // rank
  EXPECT_NE(refused(4, 9).message().find("version 9"), std::string_view::npos);
  const Bytes whole = encode_header({});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_header(std::span(whole).first(size), kPayloadMost).ok()) << size;
  }
}

TEST(Frame, JoinersAreChecked) {
  const Joiner joiner{7, 8, UINT64_MAX, 4242};
  ASSERT_TRUE(parse_joiner(encode_joiner(joiner)).ok());
  EXPECT_EQ(*parse_joiner(encode_joiner(joiner)), joiner);
  for (const Joiner& bad : {Joiner{8, 8, 0, 0}, Joiner{-1, 8, 0, 0}, Joiner{0, 0, 0, 0},
                            Joiner{0, kMostRanks + 1, 0, 0}, Joiner{0, -4, 0, 0}}) {
    EXPECT_FALSE(parse_joiner(encode_joiner(bad)).ok()) << bad.rank << " of " << bad.size;
  }
}

TEST(Frame, VerdictsAreFailures) {
  const auto good = parse_verdict(encode_verdict({Code::kMismatch, "rank_count\x1b[31m differs"}));
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->status.code(), Code::kMismatch);
  EXPECT_EQ(good->status.message(), "rank_count [31m differs");
  for (const uint32_t code : {0u, 1u, 7u, 9u, 31u, 36u, 99u, 0xffffffffu}) {
    Writer writer;
    writer.put(code);
    writer.put_text("text");
    EXPECT_FALSE(parse_verdict(writer.bytes()).ok()) << code;
  }
  const auto cut = parse_verdict(encode_verdict({Code::kTimeout, std::string(9000, 'x')}));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->status.message().size(), 2048u);
}

TEST(Frame, ResultsKeepEveryPart) {
  const std::vector<Bytes> parts = {Bytes(3), Bytes(), Bytes(kExchangeMost, std::byte{7})};
  const Bytes encoded = encode_result(parts);
  ASSERT_LE(encoded.size(), result_most(3));
  const auto parsed = parse_result(encoded, 3);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, parts);
  EXPECT_FALSE(parse_result(encoded, 2).ok());
  EXPECT_FALSE(parse_result(encoded, 4).ok());
  Writer huge;
  huge.put(uint32_t{0x7fffffff});
  EXPECT_FALSE(parse_result(huge.bytes(), 1).ok());
}

HostAddresses some_addresses(const std::string& host) {
  HostAddress v4{"eth0", {}};
  v4.address.ip[0] = 10;
  HostAddress v6{"ib0", {}};
  v6.address.v6 = true;
  v6.address.ip[15] = 1;
  HostAddresses made{.host = host, .all = {v4, v6}, .usable = 1, .chosen = true};
  made.network[31] = 9;
  return made;
}

TEST(Introduction, IntroductionsSurviveTheTrip) {
  Introduction introduction;
  introduction.nonce = counting_key();
  introduction.host_digest[31] = 5;
  introduction.host_name = "node-17.example";
  introduction.process = {4711, 99, 4026531836};
  introduction.addresses = some_addresses("node-17.example");
  const auto parsed = parse_introduction(encode_introduction(introduction));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, introduction);
  introduction.addresses.usable = 3;
  EXPECT_FALSE(parse_introduction(encode_introduction(introduction)).ok());
  introduction.addresses.usable = 1;
  introduction.host_name = "two words";
  EXPECT_FALSE(parse_introduction(encode_introduction(introduction)).ok());
}

TEST(Introduction, WhereaboutsSurviveTheTrip) {
  Address v6;
  v6.v6 = true;
  v6.ip[15] = 1;
  v6.port = 4711;
  LocalName name{};
  name[3] = std::byte{9};
  for (const Whereabouts& where :
       {Whereabouts{}, Whereabouts{name, {}}, Whereabouts{{}, v6}, Whereabouts{name, v6}}) {
    const auto parsed = parse_whereabouts(encode_whereabouts(where));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, where);
  }
  v6.port = 0;
  EXPECT_FALSE(parse_whereabouts(encode_whereabouts({{}, v6})).ok());
}

// Every parser reads 100,000 mutations of valid and of random bytes: no crash (sanitizers look on),
// and what is accepted is encoded as it was.
template <typename Parse, typename Encode>
void accepted_is_valid(std::span<const std::byte> bytes, Parse parse, Encode encode) {
  const auto parsed = parse(bytes);
  if (!parsed.ok()) return;
  const Bytes again = encode(*parsed);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

void check_every_parser(std::span<const std::byte> bytes) {
  if (bytes.size() == kHeaderSize) {
    accepted_is_valid(
        bytes, [](auto raw) { return parse_header(raw, kPayloadMost); }, encode_header);
  }
  accepted_is_valid(bytes, parse_joiner, encode_joiner);
  accepted_is_valid(bytes, parse_introduction, encode_introduction);
  accepted_is_valid(bytes, parse_whereabouts, encode_whereabouts);
  accepted_is_valid(
      bytes, [](auto raw) { return parse_result(raw, 3); },
      [](const std::vector<Bytes>& parts) { return encode_result(parts); });
  const auto verdict = parse_verdict(bytes);
  if (verdict.ok()) {
    EXPECT_FALSE(verdict->status.ok());
  }
  EXPECT_EQ(parse_nonce(bytes).ok(), bytes.size() == sizeof(Nonce));
}

TEST(Parsers, SurviveMutations) {
  Introduction introduction;
  introduction.host_name = "host";
  introduction.addresses = some_addresses("host");
  Address address;
  address.port = 1;
  const std::vector<Bytes> parts = {Bytes(3), Bytes(), Bytes(40)};
  const std::vector<Bytes> seeds = {
      encode_header({FrameType::kResponse, 20, 1, 2, 3}),
      encode_joiner({1, 4, 1000, 77}),
      encode_introduction(introduction),
      encode_whereabouts({LocalName{}, address}),
      encode_result(parts),
      encode_verdict({Code::kTimeout, "ranks 1 and 2 of 3 have not arrived"}),
      Bytes(32)};
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    Bytes bytes = seeds[random() % seeds.size()];
    for (uint32_t changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<std::byte>(random()); break;
        case 1: bytes.resize(at); break;
        case 2: bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), std::byte{0xff}); break;
        case 3: bytes[at] ^= static_cast<std::byte>(1u << (random() % 8)); break;
      }
    }
    check_every_parser(bytes);
    if (HasFailure()) FAIL() << "mutation " << i << ": " << hex(bytes);
  }
}

struct Pair {
  HandshakeTerms terms{counting_key(), 3, 5};
  Joiner joiner{7, 9, 1234, 42};
  Result<ClientHandshake> client = ClientHandshake::create(terms, joiner);
  Result<ServerHandshake> server = ServerHandshake::create(terms);
};

TEST(Handshake, MeetsWithTheSameKey) {
  Pair pair;
  const auto challenge = pair.server->challenge(frame_of(pair.client->hello()));
  ASSERT_TRUE(challenge.ok());
  const auto response = pair.client->respond(frame_of(*challenge));
  ASSERT_TRUE(response.ok());
  const auto joiner = pair.server->admit(frame_of(*response));
  ASSERT_TRUE(joiner.ok()) << joiner.status().message();
  EXPECT_EQ(*joiner, pair.joiner);
  EXPECT_TRUE(pair.client->welcome(frame_of(pair.server->welcome())).ok());
  Session client = pair.client->session();
  Session server = pair.server->session();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(server.open(frame_of(client.seal(FrameType::kContribution, 0, Bytes(i)))).ok());
    EXPECT_TRUE(client.open(frame_of(server.seal(FrameType::kResult, 0, Bytes(i)))).ok());
  }
  EXPECT_LE(pair.client->hello().size() + response->size(), 512u);
}

TEST(Handshake, RefusesAnotherKeyEpochOrServer) {
  for (int other = 0; other < 3; ++other) {
    Pair pair;
    HandshakeTerms terms = pair.terms;
    if (other == 0) terms.key[31] ^= std::byte{1};
    if (other == 1) terms.epoch = 4;
    if (other == 2) terms.server_rank = 6;
    auto server = ServerHandshake::create(terms);
    const auto challenge = server->challenge(frame_of(pair.client->hello()));
    if (other < 2) {
      EXPECT_FALSE(challenge.ok()) << other;
    } else {
      EXPECT_FALSE(pair.client->respond(frame_of(*challenge)).ok());
    }
  }
}

TEST(Handshake, RefusesReplays) {
  Pair first;
  const auto challenge = first.server->challenge(frame_of(first.client->hello()));
  const auto response = first.client->respond(frame_of(*challenge));
  ASSERT_TRUE(first.server->admit(frame_of(*response)).ok());
  // To another server with the same key: the hello is answered, and that is all.
  Pair second;
  ASSERT_TRUE(second.server->challenge(frame_of(first.client->hello())).ok());
  EXPECT_FALSE(second.server->admit(frame_of(*response)).ok());
  // An old challenge to a new client.
  EXPECT_FALSE(second.client->respond(frame_of(*challenge)).ok());
  // Frames of a session, again or out of turn.
  Session client = first.client->session();
  Session server = first.server->session();
  const Bytes one = client.seal(FrameType::kContribution, 0, {});
  const Bytes two = client.seal(FrameType::kContribution, 1, {});
  EXPECT_FALSE(server.open(frame_of(two)).ok());
  EXPECT_TRUE(server.open(frame_of(one)).ok());
  EXPECT_FALSE(server.open(frame_of(one)).ok());
  EXPECT_TRUE(server.open(frame_of(two)).ok());
}

TEST(Handshake, RefusesReflections) {
  Pair pair;
  const auto challenge = pair.server->challenge(frame_of(pair.client->hello()));
  EXPECT_FALSE(pair.client->respond(frame_of(pair.client->hello())).ok());
  EXPECT_FALSE(pair.server->admit(frame_of(*challenge)).ok());
  const auto response = pair.client->respond(frame_of(*challenge));
  ASSERT_TRUE(pair.server->admit(frame_of(*response)).ok());
  Session client = pair.client->session();
  EXPECT_FALSE(client.open(frame_of(client.seal(FrameType::kLeave, 0, {}))).ok());
}

TEST(Handshake, RefusesEveryChangedBit) {
  Pair pair;
  const Bytes hello = pair.client->hello();
  const auto good = pair.server->challenge(frame_of(hello));
  const auto response = pair.client->respond(frame_of(*good));
  for (size_t bit = 0; bit < 8 * response->size(); ++bit) {
    Bytes changed = *response;
    changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    // A header that is no longer one does not even get here.
    if (!parse_header(std::span(changed).first(kHeaderSize), kHandshakePayloadMost).ok()) continue;
    EXPECT_FALSE(pair.server->admit(frame_of(changed)).ok()) << bit;
  }
  EXPECT_TRUE(pair.server->admit(frame_of(*response)).ok());
}

}  // namespace
}  // namespace banyan::authentication_test
