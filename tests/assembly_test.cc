// A rank that fails while a communicator is made: the others know at once, long before the limit.
// SPDX-License-Identifier: Apache-2.0

#include "src/assembly.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

#include "src/links.h"
#include "src/settings.h"
#include "tests/rendezvous_place.h"
#include "transports/net_devices.h"

namespace banyan {
namespace {

constexpr int kSettings = 1;     // the round in which they are compared
constexpr int kWhereabouts = 3;  // the round after which ranks connect

// An exchange in which something happens to this rank after that round.
class Tampered final : public Exchange {
 public:
  using Happens = std::function<Status(Exchange&, std::vector<Bytes>&)>;
  Tampered(Exchange& exchange, Happens happens, int round)
      : exchange_(exchange), happens_(std::move(happens)), round_(round) {}

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::optional<Key> key() const override { return exchange_.key(); }
  std::vector<int> failure_descriptors() const override { return exchange_.failure_descriptors(); }
  Status failure() override { return exchange_.failure(); }
  bool give_up(const Status& why) override { return exchange_.give_up(why); }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       TimePoint deadline) override {
    auto all = exchange_.allgather(mine, deadline);
    if (all.ok() && ++rounds_ == round_) BANYAN_TRY(happens_(exchange_, *all));
    return all;
  }

 private:
  Exchange& exchange_;
  Happens happens_;
  int round_;
  int rounds_ = 0;
};

// What three ranks are told when that happens to one of them.
std::vector<Status> assembled(int victim, const Tampered::Happens& happens,
                              int round = kWhereabouts) {
  const Place place;
  std::vector<Status> told(3);
  const TimePoint begin = Clock::now();
  together(3, [&](int rank) {
    auto settings = make_settings({}, RawEnvironment::of_process(), rank);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    settings->log = silent();
    auto exchange = place.join(rank, 3);
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    const auto nothing = [](Exchange&, std::vector<Bytes>&) { return Status(); };
    Tampered tampered(**exchange, rank == victim ? happens : nothing, round);
    told[static_cast<size_t>(rank)] =
        assemble(tampered, std::move(*settings), deadline_after(60)).status();
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15));
  return told;
}

TEST(Assembly, OfRanksThatAreWellSucceeds) {
  for (const Status& status : assembled(0, [](Exchange&, std::vector<Bytes>&) { return Status(); }))
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Assembly, HearsAtOnceOfARankThatIsLostWhileLinking) {
  for (const int victim : {0, 1, 2}) {
    const std::vector<Status> told = assembled(victim, [](Exchange& exchange, auto&) {
      // As the kernel does when the process is killed.
      (void)::shutdown(exchange.failure_descriptors().front(), SHUT_RDWR);
      return Status(Code::kInternal, "dead");
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const Status& status = told[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.message();
      EXPECT_TRUE(has(status, fmt::format("rank {}", victim))) << status.message();
    }
  }
}

// Rank 1 alone cannot read what rank 0 gave; the others are waiting for it.
TEST(Assembly, HearsAtOnceOfARankThatCannotGoOn) {
  for (const size_t kept : {0, 4}) {  // of its code, which comes first
    const std::vector<Status> told = assembled(1, [kept](Exchange&, std::vector<Bytes>& all) {
      std::fill(all[0].begin() + static_cast<ptrdiff_t>(kept), all[0].end(), std::byte{0xff});
      return Status();
    });
    for (const Status& status : told) {
      EXPECT_EQ(status.code(), kept == 0 ? Code::kInternal : Code::kCorrupt) << status.message();
      EXPECT_TRUE(has(status, "rank 0")) << status.message();
    }
  }
}

TEST(Assembly, RefusesSettingsThatCannotBeRead) {
  const std::vector<Status> told = assembled(
      1,
      [](Exchange&, std::vector<Bytes>& all) {
        all[2].pop_back();
        return Status();
      },
      kSettings);
  for (const Status& status : told) {
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.message();
    EXPECT_TRUE(has(status, "rank 2 sent settings that cannot be read")) << status.message();
  }
}

// As another user of the host would, who knows what the key is made of.
TEST(Assembly, OfAnotherUserNeedsAPrivateKey) {
  for (const bool is_private : {false, true}) {
    const Place place;
    together(2, [&](int rank) {
      const auto exchange = join_rendezvous({.rank = rank,
                                             .size = 2,
                                             .candidates = {place.address},
                                             .key = place.key,
                                             .key_is_private = is_private,
                                             .deadline = deadline_after(20)},
                                            silent());
      ASSERT_TRUE(exchange.ok()) << exchange.status().message();
      HostIdentity host = *this_host();
      host.digest[0] ^= static_cast<uint8_t>(rank);
      Environment environment;
      environment.socket_interface = "lo";
      const Status linked =
          connect_links(**exchange, host, environment, deadline_after(20), silent()).status();
      EXPECT_EQ(linked.ok(), is_private) << linked.message();
      if (is_private) return;
      EXPECT_EQ(linked.code(), Code::kMismatch);
      EXPECT_NE(linked.message().find("rank 1 has others than rank 0"), std::string_view::npos);
      EXPECT_NE(linked.message().find("BANYAN_SECRET"), std::string_view::npos);
    });
  }
}

std::vector<LinkPeer> peers_on(const std::vector<uint8_t>& hosts) {
  std::vector<LinkPeer> peers;
  for (const uint8_t host : hosts) {
    LinkPeer& peer = peers.emplace_back();
    peer.host.digest[0] = host;
    peer.host.digest[31] = 7;
  }
  return peers;
}

int kind_named(std::string_view name) {
  const auto kinds = transport_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const TransportKind& kind) { return kind.name == name; });
  return static_cast<int>(found - kinds.begin());
}

TEST(Assembly, ranks_of_a_host_are_a_part) {
  const std::vector<int> offered = {kind_named("shm"), kind_named("ucx")};
  const std::vector<LinkPeer> peers = peers_on({9, 3, 9, 5, 3, 9});
  EXPECT_EQ(hierarchy_of(peers, offered),
            *Hierarchy::make(6, {{"host", {{0, 2, 5}, {1, 4}, {3}}}}));
  EXPECT_EQ(hierarchy_of(peers_on({1, 1, 1}), offered).simplified(), Hierarchy());
  EXPECT_EQ(hierarchy_of(peers_on({1, 2, 3}), offered).simplified(), Hierarchy());
}

// What only some ranks can see, whether two others are one process and which, does not count.
TEST(Assembly, every_rank_finds_the_same_parts) {
  std::vector<LinkPeer> there = peers_on({1, 1, 2, 2});
  std::vector<LinkPeer> here = there;
  here[0].same_host = here[1].same_host = here[0].same_process = here[1].same_process = true;
  here[0].pid = here[1].pid = 77;
  there[2].same_host = there[3].same_host = true;
  for (const std::vector<std::string_view>& names : std::vector<std::vector<std::string_view>>{
           {"shm", "ucx"}, {"ucx"}, {"loopback", "ucx"}, {"loopback", "shm", "ucx"}}) {
    std::vector<int> offered;
    for (const std::string_view name : names) offered.push_back(kind_named(name));
    EXPECT_EQ(hierarchy_of(here, offered), hierarchy_of(there, offered));
    const bool in_memory = std::find(names.begin(), names.end(), "shm") != names.end();
    EXPECT_EQ(hierarchy_of(here, offered).depth(), in_memory ? 1 : 0);
  }
}

TEST(Settings, QuoteOnlyTheBeginningOfALongValue) {
  const std::string text(5000, 'x');
  const Status wrong = make_settings({}, RawEnvironment({{"BANYAN_ALGO", text}}), 0).status();
  EXPECT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_TRUE(has(wrong, "BANYAN_ALGO=" + text.substr(0, 200) + "...: ")) << wrong.message();
  EXPECT_TRUE(has(wrong, "5000 characters")) << wrong.message();
}

TEST(Settings, RefuseADeviceThatThisMachineHasNotWhateverTransportsThereAre) {
  // As in a container without /sys: then no name can be told from another.
  if (net_devices().empty()) GTEST_SKIP() << "this machine does not say which devices it has";
  const std::string good = net_devices().front();
  const auto with = [](const std::string& devices) {
    const RawEnvironment raw({{"BANYAN_TRANSPORTS", "shm"}, {"BANYAN_NET_DEVICES", devices}});
    return make_settings({}, raw, 0).status();
  };
  EXPECT_TRUE(with(good).ok()) << with(good).message();
  const Status wrong = with(good + ",no-such-device");
  EXPECT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_NE(wrong.message().find("word 2 'no-such-device'"), std::string_view::npos)
      << wrong.message();
}

}  // namespace
}  // namespace banyan
