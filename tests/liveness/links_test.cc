// Links join ranks on one host and between hosts; they have keys, pass descriptors, and notice
// things.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/links.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "src/bootstrap/frame_socket.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_socket.h"
#include "src/liveness/introduction.h"
#include "src/liveness/links_local.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/rendezvous_place.h"

namespace banyan::links_test {
namespace {

Environment on_loopback() {
  Environment environment;
  environment.socket_interface = "lo";
  return environment;
}

HostIdentity host_number(int number) {
  HostIdentity host = *this_host();
  if (number > 0) host.digest[0] = static_cast<uint8_t>(host.digest[0] + number);
  host.name = fmt::format("host{}", number);
  return host;
}

// Ranks as threads meet and call `body` with their exchange.
void meet_and(int size, const std::function<void(Exchange&)>& body) {
  Address address;
  address.ip = {127, 0, 0, 1};
  const Key key = *random_key();
  const auto opened = open_rendezvous({address, {}, key, deadline_after(20)}, silent());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  together(size, [&](int rank) {
    const auto exchange = join_rendezvous({.rank = rank,
                                           .size = size,
                                           .candidates = {*opened},
                                           .must_listen = true,
                                           .key = key,
                                           .deadline = deadline_after(20)},
                                          silent());
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    body(**exchange);
  });
}

// All ranks of a communicator, linked; rank r on host hosts[r].
std::vector<Links> linked(const std::vector<int>& hosts) {
  const int size = static_cast<int>(hosts.size());
  std::vector<Links> all(hosts.size());
  meet_and(size, [&](Exchange& exchange) {
    const auto rank = static_cast<size_t>(exchange.rank());
    auto links = connect_links(exchange, host_number(hosts[rank]), on_loopback(),
                               deadline_after(20), silent());
    ASSERT_TRUE(links.ok()) << links.status().message();
    all[rank] = std::move(*links);
  });
  return all;
}

// Waits for one byte; -1: end of file.
int receive_byte(int socket) {
  unsigned char byte = 0;
  while (wait_for(socket, POLLIN, deadline_after(10))) {
    const ssize_t got = ::recv(socket, &byte, 1, 0);
    if (got == 1) return byte;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return -1;
  }
  return -2;
}

void check_every_pair(const std::vector<Links>& all) {
  for (const Links& one : all) {
    for (const Links& other : all) {
      const auto peer = static_cast<size_t>(other.rank);
      if (one.rank == other.rank) {
        EXPECT_FALSE(one.sockets[peer].valid());
        continue;
      }
      const auto byte = static_cast<unsigned char>(16 * one.rank + other.rank);
      ASSERT_EQ(::send(one.sockets[peer].get(), &byte, 1, MSG_NOSIGNAL), 1);
      EXPECT_EQ(receive_byte(other.sockets[static_cast<size_t>(one.rank)].get()), byte);
    }
  }
}

bool is_local(int socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  (void)::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

TEST(Links, EveryRankToEveryOther) {
  std::set<uint32_t> epochs;
  for (int size = 1; size <= 9; ++size) {
    const auto all = linked(std::vector<int>(static_cast<size_t>(size), 0));
    ASSERT_FALSE(HasFailure());
    for (const Links& one : all) {
      EXPECT_EQ(one.size, size);
      EXPECT_EQ(one.key, all[0].key);
      EXPECT_EQ(one.epoch, all[0].epoch);
      EXPECT_NE(one.epoch, 0u);
      for (const LinkPeer& peer : one.peers) {
        EXPECT_TRUE(peer.same_host);
        EXPECT_TRUE(peer.same_process);
        EXPECT_EQ(peer.pid, ::getpid());
        EXPECT_EQ(peer.host.name, "host0");
      }
      for (const Descriptor& socket : one.sockets) {
        if (!socket.valid()) continue;
        EXPECT_TRUE(is_local(socket.get()));
        EXPECT_NE(::fcntl(socket.get(), F_GETFL) & O_NONBLOCK, 0);
        EXPECT_NE(::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC, 0);
      }
    }
    check_every_pair(all);
    epochs.insert(all[0].epoch);
  }
  EXPECT_EQ(epochs.size(), 9u);  // each communicator has its own
}

TEST(Links, BetweenHostsToo) {
  const std::vector<std::vector<int>> placements = {
      {0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 0, 2, 1}};
  for (const std::vector<int>& hosts : placements) {
    const auto all = linked(hosts);
    ASSERT_FALSE(HasFailure());
    for (size_t a = 0; a < hosts.size(); ++a) {
      for (size_t b = 0; b < hosts.size(); ++b) {
        const bool same = hosts[a] == hosts[b];
        EXPECT_EQ(all[a].peers[b].same_host, same);
        if (!same) {
          EXPECT_EQ(all[a].peers[b].pid, 0);
          EXPECT_FALSE(all[a].peers[b].same_process);
        }
        if (a != b) {
          EXPECT_EQ(is_local(all[a].sockets[b].get()), same);
        }
      }
    }
    check_every_pair(all);
  }
}

TEST(Links, OverTheCallersExchange) {
  // One rank: everything but the connections.
  const auto exchange = exchange_over(0, 1, [](const void* send, void* recv, size_t bytes) {
    std::memcpy(recv, send, bytes);
    return 0;
  });
  const auto links = connect_links(*exchange, on_loopback(), deadline_after(20), silent());
  ASSERT_TRUE(links.ok()) << links.status().message();
  EXPECT_NE(links->key, Key{});
  const auto failing = exchange_over(0, 2, [](const void*, void*, size_t) { return 17; });
  EXPECT_EQ(connect_links(*failing, on_loopback(), deadline_after(20), silent()).status().code(),
            Code::kRemote);
}

TEST(Links, OtherProcessesAreTold) {
  Address address;
  address.ip = {127, 0, 0, 1};
  const Key key = *random_key();
  const auto opened = open_rendezvous({address, {}, key, deadline_after(20)}, silent());
  ASSERT_TRUE(opened.ok());
  const auto link = [&](int rank) -> Result<Links> {
    auto exchange = join_rendezvous({.rank = rank,
                                     .size = 2,
                                     .candidates = {*opened},
                                     .must_listen = true,
                                     .key = key,
                                     .deadline = deadline_after(20)},
                                    silent());
    if (!exchange.ok()) return exchange.status();
    return connect_links(**exchange, on_loopback(), deadline_after(20), silent());
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const auto links = link(1);
    if (!links.ok() || links->peers[0].pid != ::getppid()) ::_exit(1);
    ::_exit(receive_byte(links->sockets[0].get()) == 'b' ? 0 : 2);  // and ends
  }
  const auto links = link(0);
  ASSERT_TRUE(links.ok()) << links.status().message();
  EXPECT_TRUE(links->peers[1].same_host);
  EXPECT_FALSE(links->peers[1].same_process);
  EXPECT_EQ(links->peers[1].pid, child);
  ASSERT_EQ(::send(links->sockets[1].get(), "b", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(receive_byte(links->sockets[1].get()), -1);  // the end of the process
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Links, NameTheRankThatDoesNotConnect) {
  std::atomic<int> told{0};
  meet_and(4, [&told](Exchange& exchange) {
    if (exchange.rank() == 3) {
      // Introduces itself, says where it is, and does nothing more.
      Introduction introduction;
      introduction.host_digest = this_host()->digest;
      introduction.host_name = "idle";
      ASSERT_TRUE(exchange.allgather(encode_introduction(introduction), deadline_after(20)).ok());
      ASSERT_TRUE(exchange.allgather(encode_whereabouts({}), deadline_after(20)).ok());
      while (told < 3) std::this_thread::yield();
      return;
    }
    const auto links = connect_links(exchange, on_loopback(), deadline_after(0.3), silent());
    EXPECT_EQ(links.status().code(), Code::kTimeout);
    EXPECT_NE(links.status().message().find("rank 3 of 4 has not connected"),
              std::string_view::npos)
        << links.status().message();
    ++told;
  });
}

TEST(Links, NameTheRankThatNoLongerListens) {
  meet_and(2, [](Exchange& exchange) {
    if (exchange.rank() == 0) {
      Introduction introduction;
      introduction.host_digest = this_host()->digest;
      introduction.host_name = "gone";
      ASSERT_TRUE(exchange.allgather(encode_introduction(introduction), deadline_after(20)).ok());
      ASSERT_TRUE(
          exchange.allgather(encode_whereabouts({*random_local_name(), {}}), deadline_after(20))
              .ok());
      return;
    }
    const auto links = connect_links(exchange, on_loopback(), deadline_after(20), silent());
    EXPECT_EQ(links.status().code(), Code::kPeerLost);
    EXPECT_NE(links.status().message().find("rank 0 (gone)"), std::string_view::npos)
        << links.status().message();
  });
}

TEST(Links, NameTheRankThatTalksNonsense) {
  meet_and(3, [](Exchange& exchange) {
    if (exchange.rank() == 1) {
      ASSERT_TRUE(exchange.allgather(Bytes(7), deadline_after(20)).ok());
      return;
    }
    const auto links = connect_links(exchange, on_loopback(), deadline_after(20), silent());
    EXPECT_EQ(links.status().code(), Code::kCorrupt);
    EXPECT_NE(links.status().message().find("rank 1"), std::string_view::npos);
  });
}

// An exchange that calls `on_wait` before each wait for links, and `on_round` after each round.
class Observed final : public Exchange {
 public:
  explicit Observed(Exchange& exchange) : exchange_(exchange) {}
  std::function<void()> on_wait;
  std::function<void(const std::vector<Bytes>&)> on_round;

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::optional<Key> key() const override { return exchange_.key(); }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine, TimePoint end) override {
    auto all = exchange_.allgather(mine, end);
    if (all.ok() && on_round) on_round(*all);
    return all;
  }
  std::vector<int> failure_descriptors() const override {
    if (on_wait) on_wait();
    return exchange_.failure_descriptors();
  }
  Status failure() override { return exchange_.failure(); }

 private:
  Exchange& exchange_;
};

// The stranger's connection and the last word of rank 1 reach rank 0 at the same time.
TEST(Links, ConnectionsForWhichNoDescriptorIsLeftHurtNobodyWhoIsIn) {
  std::atomic<int> said_by_rank_1{0};  // 1: that it comes; 2: what lets it in
  std::atomic<bool> rank_0_waits{false};
  std::optional<LocalConnection> stranger;
  std::optional<test::FewDescriptors> few;
  meet_and(2, [&](Exchange& exchange) {
    Observed observed(exchange);
    std::optional<LocalName> name;
    int round = 0;
    if (exchange.rank() == 1) {
      observed.on_wait = [&] {
        ++said_by_rank_1;
        while (!rank_0_waits) std::this_thread::yield();
      };
    } else {
      observed.on_round = [&](const std::vector<Bytes>& all) {
        if (++round < 2) return;
        name = parse_whereabouts(all[0])->local;
        while (said_by_rank_1 < 1) std::this_thread::yield();
      };
      observed.on_wait = [&] {
        if (few) return;
        rank_0_waits = true;
        while (said_by_rank_1 < 2) std::this_thread::yield();
        auto connected = connect_local(*name);
        ASSERT_TRUE(connected.ok());
        stranger = std::move(*connected);
        few.emplace(test::FewDescriptors::kNone);
      };
    }
    const auto links =
        connect_links(observed, host_number(0), on_loopback(), deadline_after(20), silent());
    EXPECT_TRUE(links.ok()) << links.status().message();
    if (exchange.rank() == 0) few.reset();
  });
  EXPECT_TRUE(stranger);
}

TEST(Links, ALostRankIsNewsThatComesByItself) {
  meet_and(3, [](Exchange& exchange) {
    if (exchange.rank() == 2) {
      Introduction introduction;
      introduction.host_digest = this_host()->digest;
      ASSERT_TRUE(exchange.allgather(encode_introduction(introduction), deadline_after(20)).ok());
      ASSERT_TRUE(exchange.allgather(encode_whereabouts({}), deadline_after(20)).ok());
      // As the kernel does when the process is killed.
      (void)::shutdown(exchange.failure_descriptors().front(), SHUT_RDWR);
      return;
    }
    const auto begin = Clock::now();
    const auto links = connect_links(exchange, on_loopback(), deadline_after(20), silent());
    EXPECT_EQ(links.status().code(), Code::kPeerLost);
    EXPECT_NE(links.status().message().find("rank 2"), std::string_view::npos)
        << links.status().message();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  });
}

// Rank 0 has left because rank 2 is lost; rank 1 finds that out before it hears of rank 2.
TEST(Links, WhoLeftBecauseOfALostRankIsNotToBlame) {
  meet_and(3, [](Exchange& exchange) {
    if (exchange.rank() != 1) {
      Introduction introduction;
      introduction.host_digest = this_host()->digest;
      ASSERT_TRUE(exchange.allgather(encode_introduction(introduction), deadline_after(20)).ok());
      const auto nobody = encode_whereabouts({*random_local_name(), {}});
      ASSERT_TRUE(exchange.allgather(nobody, deadline_after(20)).ok());
      if (exchange.rank() == 0) return;
      // Nothing shows when rank 1 has found rank 0 gone. Too short a wait makes the case an easier
      // one, in which rank 2 is lost first; it never makes the test fail.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      (void)::shutdown(exchange.failure_descriptors().front(), SHUT_RDWR);
      return;
    }
    const auto links = connect_links(exchange, on_loopback(), deadline_after(20), silent());
    EXPECT_EQ(links.status().code(), Code::kPeerLost);
    EXPECT_NE(links.status().message().find("rank 2"), std::string_view::npos)
        << links.status().message();
  });
}

TEST(Links, StrangersAtAnAbstractNameGetNowhere) {
  // Names can be read by everybody in /proc/net/unix; here they are known from the exchange.
  std::atomic<bool> over{false};
  meet_and(3, [&over](Exchange& exchange) {
    const auto links = connect_links(exchange, on_loopback(), deadline_after(20), silent());
    ASSERT_TRUE(links.ok()) << links.status().message();
    over = true;
  });
  const auto name = random_local_name();
  EXPECT_EQ(connect_local(*name).status().code(), Code::kPeerLost);
  const auto listener = listen_local(*name);
  ASSERT_TRUE(listener.ok());
  const auto connection = connect_local(*name);
  ASSERT_TRUE(connection.ok()) << connection.status().message();
  EXPECT_EQ(connection->pid, ::getpid());
  EXPECT_EQ(listen_local(*name).status().code(), Code::kSystem);
}

struct SocketPair {
  Descriptor a;
  Descriptor b;
  SocketPair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    a = Descriptor(ends[0]);
    b = Descriptor(ends[1]);
  }
};

TEST(Descriptors, ArriveOverALink) {
  const auto all = linked({0, 0, 0});
  ASSERT_FALSE(HasFailure());
  const Descriptor memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "banyan", 6), 6);
  const std::vector<int> sent = {memory.get(), 0, memory.get()};
  ASSERT_TRUE(send_descriptors(all[0].sockets[2].get(), sent).ok());
  const auto received = receive_descriptors(all[2].sockets[0].get(), 3, deadline_after(10));
  ASSERT_TRUE(received.ok()) << received.status().message();
  char text[6] = {};
  ASSERT_EQ(::pread((*received)[2].get(), text, 6, 0), 6);
  EXPECT_EQ(std::string_view(text, 6), "banyan");
  for (const Descriptor& one : *received) {
    EXPECT_NE(::fcntl(one.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(Descriptors, KeepTheirOrderAndLeaveTheRest) {
  const SocketPair pair;
  const int zero[] = {0};
  ASSERT_TRUE(send_descriptors(pair.a.get(), zero).ok());
  ASSERT_EQ(::send(pair.a.get(), "x", 1, 0), 1);
  ASSERT_TRUE(send_descriptors(pair.a.get(), zero).ok());
  EXPECT_TRUE(receive_descriptors(pair.b.get(), 1, deadline_after(10)).ok());
  EXPECT_EQ(receive_byte(pair.b.get()), 'x');
  EXPECT_TRUE(receive_descriptors(pair.b.get(), 1, deadline_after(10)).ok());
}

TEST(Descriptors, FailClearly) {
  SocketPair pair;
  const int two[] = {0, 0};
  EXPECT_EQ(receive_descriptors(pair.b.get(), 1, deadline_after(0.02)).status().code(),
            Code::kTimeout);
  ASSERT_TRUE(send_descriptors(pair.a.get(), two).ok());
  EXPECT_EQ(receive_descriptors(pair.b.get(), 1, deadline_after(10)).status().code(),
            Code::kCorrupt);
  ASSERT_EQ(::send(pair.a.get(), "D", 1, 0), 1);
  EXPECT_EQ(receive_descriptors(pair.b.get(), 1, deadline_after(10)).status().code(),
            Code::kCorrupt);
  EXPECT_EQ(receive_descriptors(pair.b.get(), 0, deadline_after(1)).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(send_descriptors(pair.a.get(), {}).code(), Code::kInvalidArgument);
  const int bad[] = {-1};
  EXPECT_EQ(send_descriptors(pair.a.get(), bad).code(), Code::kSystem);
  pair.a.close();
  EXPECT_EQ(receive_descriptors(pair.b.get(), 1, deadline_after(10)).status().code(),
            Code::kPeerLost);
  EXPECT_EQ(send_descriptors(pair.b.get(), two).code(), Code::kPeerLost);
}

TEST(Descriptors, TooManyOpenFilesIsSaid) {
  const SocketPair pair;
  const std::vector<int> sent(10, 0);
  ASSERT_TRUE(send_descriptors(pair.a.get(), sent).ok());
  const int next = Descriptor(::dup(0)).get();
  std::optional<test::FewDescriptors> few(3);
  const auto received = receive_descriptors(pair.b.get(), 10, deadline_after(10));
  few.reset();
  EXPECT_EQ(received.status().code(), Code::kSystem);
  const std::string_view message = received.status().message();
  EXPECT_NE(message.find("(ulimit -n) is too low, or a security policy"), std::string_view::npos);
  EXPECT_EQ(Descriptor(::dup(0)).get(), next);  // those that came were closed
}

}  // namespace
}  // namespace banyan::links_test
