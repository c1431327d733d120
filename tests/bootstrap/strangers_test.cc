// Strangers at the port where ranks meet: they get nowhere and keep nobody.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "src/bootstrap/handshake.h"
#include "src/bootstrap/handshake_gate.h"
#include "src/bootstrap/rendezvous_socket.h"
#include "tests/support/rendezvous_place.h"

namespace banyan::strangers_test {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

class Stranger {
 public:
  explicit Stranger(const Address& address) {
    auto socket = begin_connect(address);
    if (socket.ok()) socket_ = std::move(*socket);
    pollfd entry{socket_.get(), POLLOUT, 0};
    (void)::poll(&entry, 1, 1000);
  }
  void say(std::span<const std::byte> bytes) const {
    (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // True: closed within the time.
  bool closed(int limit_ms) const {
    pollfd entry{socket_.get(), POLLIN, 0};
    char buffer[4096];
    while (::poll(&entry, 1, limit_ms) == 1) {
      const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

 private:
  Descriptor socket_;
};

Bytes text(std::string_view words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// What strangers say, one after the other.
std::vector<Bytes> greetings() {
  std::vector<Bytes> all = {text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                            text("\x16\x03\x01\x02"),
                            text("SSH-2.0-scan\r\n"),
                            text("x"),
                            {}};
  std::mt19937 random(7);
  for (size_t size : {1, 23, 24, 25, 88, 4096}) {
    Bytes noise(size);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    all.push_back(noise);
  }
  // A header of ours, then lengths as large as can be, another version, or only a part.
  for (const uint32_t length : {0u, 32u, 64u, 65u, 65536u, 0x7fffffffu, 0xffffffffu}) {
    Bytes frame = encode_header({FrameType::kHello, length, 0, 0, 1});
    frame.resize(600);
    all.push_back(frame);
  }
  Bytes version = encode_header({FrameType::kHello, 32, 0, 0, 1});
  version[4] = std::byte{2};
  all.push_back(version);
  const Key other = *random_key();
  const auto wrong = ClientHandshake::create({other, 0, -1}, {1, 4, 1000, 1});
  all.push_back(wrong->hello());
  for (size_t part = 1; part < 5; ++part) {
    const Bytes& hello = wrong->hello();
    all.emplace_back(hello.begin(),
                     hello.begin() + static_cast<ptrdiff_t>(hello.size() * part / 5));
  }
  return all;
}

TEST(Strangers, DoNotKeepRanksFromMeeting) {
  const Place place;
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 150; ++i) strangers.push_back(std::make_unique<Stranger>(place.address));
  for (const Bytes& greeting : greetings()) {
    strangers.push_back(std::make_unique<Stranger>(place.address));
    strangers.back()->say(greeting);
  }
  const auto begin = Clock::now();
  together(4, [&place](int rank) {
    const auto exchange = place.join(rank, 4);
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    converse(**exchange);
  });
  EXPECT_LT(duration<double>(Clock::now() - begin).count(), 1.5);
  for (const auto& stranger : strangers) EXPECT_TRUE(stranger->closed(2000));
}

TEST(Strangers, WhoComeInAllTheTimeDoNotEither) {
  const Place place;
  std::atomic<bool> over{false};
  std::thread flood([&] {
    std::vector<std::unique_ptr<Stranger>> kept;
    const auto all = greetings();
    for (size_t i = 0; !over; ++i) {
      kept.push_back(std::make_unique<Stranger>(place.address));
      kept.back()->say(all[i % all.size()]);
      if (kept.size() > 100) kept.erase(kept.begin());
    }
  });
  together(8, [&place](int rank) {
    const auto exchange = place.join(rank, 8);
    EXPECT_TRUE(exchange.ok()) << exchange.status().message();
  });
  over = true;
  flood.join();
}

TEST(Strangers, AreClosedAtOnceForGarbage) {
  const Place place;
  for (const Bytes& greeting : greetings()) {
    // What is not yet a whole frame may still become one.
    if (greeting.size() < kHeaderSize) continue;
    const bool may_go_on =
        parse_header(std::span(greeting).first(kHeaderSize), kHandshakePayloadMost).ok() &&
        greeting.size() < kHeaderSize + 64;
    if (may_go_on) continue;
    const Stranger stranger(place.address);
    stranger.say(greeting);
    EXPECT_TRUE(stranger.closed(1000)) << greeting.size();
  }
}

TEST(Strangers, AreClosedWhenTheirTimeIsOver) {
  EXPECT_EQ(kHandshakePatience, milliseconds(2000));
  auto listener = listen_at(loopback(), {});
  ASSERT_TRUE(listener.ok());
  std::vector<Descriptor> listeners;
  listeners.push_back(std::move(listener->socket));
  const HandshakeTerms terms{*random_key(), 0, -1};
  auto gate = Gate::create(std::move(listeners), terms, silent(), milliseconds(50));
  ASSERT_TRUE(gate.ok());
  const auto client = ClientHandshake::create(terms, {0, 2, 20'000, 1});
  const Stranger idle(listener->address);
  const Stranger half(listener->address);  // knows the key, and then says nothing more
  half.say(client->hello());
  std::vector<Admitted> admitted;
  const auto begin = Clock::now();
  while (!(idle.closed(1) && half.closed(1)) && Clock::now() - begin < milliseconds(5000)) {
    pollfd entry{gate->descriptor(), POLLIN, 0};
    (void)::poll(&entry, 1, milliseconds_until(gate->next(), 1000));
    gate->serve(admitted);
  }
  EXPECT_TRUE(idle.closed(1));
  EXPECT_TRUE(half.closed(1));
  EXPECT_GE(Clock::now() - begin, milliseconds(50));
  EXPECT_TRUE(admitted.empty());
}

TEST(Strangers, LearnWhichVersionTheyMet) {
  const Place place;
  auto socket = begin_connect(place.address);
  pollfd entry{socket->get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&entry, 1, 1000), 1);
  Bytes hello = encode_header({FrameType::kHello, 32, 0, 0, 1});
  hello[4] = std::byte{9};
  ASSERT_EQ(::send(socket->get(), hello.data(), hello.size(), 0),
            static_cast<ssize_t>(hello.size()));
  Bytes answer(kHeaderSize);
  entry.events = POLLIN;
  ASSERT_EQ(::poll(&entry, 1, 2000), 1);
  ASSERT_EQ(::recv(socket->get(), answer.data(), answer.size(), MSG_WAITALL),
            static_cast<ssize_t>(kHeaderSize));
  const auto header = parse_header(answer, 0);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->type, FrameType::kOtherVersion);
}

// A recorder between a rank and a rendezvous: what one session said is no use in another.
TEST(Strangers, CannotReplay) {
  const Place place;
  // The client's side of a handshake that is cut off before its end.
  const HandshakeTerms terms{place.key, 0, -1};
  auto client = ClientHandshake::create(terms, {0, 2, 20'000, 1});
  const Stranger first(place.address);
  first.say(client->hello());
  // The same hello from elsewhere is answered with another nonce; the response cannot be made.
  const Stranger second(place.address);
  second.say(client->hello());
  second.say(client->hello());  // in place of a response
  EXPECT_TRUE(second.closed(1000));
  together(2, [&place](int rank) { EXPECT_TRUE(place.join(rank, 2).ok()); });
}

TEST(Strangers, WithAnotherSecretAreNobody) {
  const Place place;
  const auto stranger = join_rendezvous({.rank = 0,
                                         .size = 2,
                                         .candidates = {place.address},
                                         .must_listen = true,
                                         .key = *random_key(),
                                         .deadline = deadline_after(0.2)},
                                        silent());
  EXPECT_EQ(stranger.status().code(), Code::kTimeout);
  EXPECT_TRUE(has(stranger.status(), "secret")) << stranger.status().message();
  together(2, [&place](int rank) { EXPECT_TRUE(place.join(rank, 2).ok()); });
}

TEST(Strangers, WhoUseUpDescriptorsAreSurvived) {
  const Place place;
  std::vector<std::unique_ptr<Stranger>> strangers;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Room for the client ends of strangers, not for all of the server's ends.
  const Descriptor probe(::dup(0));
  const auto open_now = static_cast<rlim_t>(probe.get());
  for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<Stranger>(place.address));
  rlimit low = before;
  low.rlim_cur = open_now + 30;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int i = 0; i < 4; ++i) {
    const auto socket = begin_connect(place.address);
    if (socket.ok()) (void)Stranger(place.address);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  together(3, [&place](int rank) { EXPECT_TRUE(place.join(rank, 3).ok()); });
}

}  // namespace
}  // namespace banyan::strangers_test
