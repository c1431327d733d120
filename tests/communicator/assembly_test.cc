// A rank that fails while a communicator is made: the others know at once, long before the limit.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/assembly.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

#include "compression/codecs.h"
#include "src/communicator/settings.h"
#include "src/communicator/tuned_network.h"
#include "src/liveness/links.h"
#include "src/tuning/shared_tuning.h"
#include "tests/support/rendezvous_place.h"
#include "tests/support/sanitizers.h"
#include "transports/net_devices.h"

namespace banyan::assembly_test {
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

// What three ranks, of which the first has that table, are told when that happens to one of them.
std::vector<Status> assembled(int victim, const Tampered::Happens& happens,
                              int round = kWhereabouts, const std::string& table = {}) {
  const Place place;
  std::vector<Status> told(3);
  const TimePoint begin = Clock::now();
  together(3, [&](int rank) {
    auto settings = make_settings({}, RawEnvironment::of_process(), rank);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    settings->log = silent();
    if (!table.empty()) settings->tuning = SharedTuning{.table = rank == 0 ? table : ""};
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

// One rank has another table than rank 0 gave, which is as good to read: the hash alone tells.
TEST(Assembly, RefusesATableThatIsNotTheSameEverywhere) {
  const std::string table = "allreduce size=0-4K : ring";
  for (const Status& status : assembled(
           0, [](Exchange&, auto&) { return Status(); }, kSettings, table))
    EXPECT_TRUE(status.ok()) << status.message();
  const std::vector<Status> told = assembled(
      1,
      [&](Exchange&, std::vector<Bytes>& all) {
        const auto letters = std::as_bytes(std::span(table));
        const auto at = std::search(all[0].begin(), all[0].end(), letters.begin(), letters.end());
        EXPECT_NE(at, all[0].end());
        if (at != all[0].end()) at[static_cast<ptrdiff_t>(table.find('4'))] = std::byte{'2'};
        return Status();
      },
      kSettings, table);
  for (const Status& status : told) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_TRUE(has(status, "rank 1 has another tuning than rank 0")) << status.message();
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

TEST(Assembly, RanksOfAHostAreAPart) {
  const std::vector<int> offered = {kind_named("shm"), kind_named("ucx")};
  const std::vector<LinkPeer> peers = peers_on({9, 3, 9, 5, 3, 9});
  EXPECT_EQ(hierarchy_of(peers, offered),
            *Hierarchy::make(6, {{"host", {{0, 2, 5}, {1, 4}, {3}}}}));
  EXPECT_EQ(hierarchy_of(peers_on({1, 1, 1}), offered).simplified(), Hierarchy());
  EXPECT_EQ(hierarchy_of(peers_on({1, 2, 3}), offered).simplified(), Hierarchy());
}

// Loopback has other tables than a network with cables.
TEST(Assembly, TakesANetworkWithinAHostForLoopback) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "UCX dies under the thread sanitizer";
  if (const std::string why = transport_kinds()[static_cast<size_t>(kind_named("ucx"))].missing();
      !why.empty())
    GTEST_SKIP() << why;
  for (const std::string transport : {"ucx", "shm"}) {
    const RawEnvironment raw({{"BANYAN_TRANSPORTS", transport}, {"BANYAN_NET_DEVICES", "lo"}});
    const Place place;
    together(2, [&](int rank) {
      auto settings = make_settings({}, raw, rank);
      ASSERT_TRUE(settings.ok()) << settings.status().message();
      settings->log = silent();
      auto exchange = place.join(rank, 2);
      ASSERT_TRUE(exchange.ok()) << exchange.status().message();
      const auto made = assemble(**exchange, std::move(*settings), deadline_after(60));
      ASSERT_TRUE(made.ok()) << made.status().message();
      EXPECT_EQ((*made)->medium() == Medium::kLoopback, transport == "ucx");
    });
  }
}

// What only some ranks can see, whether two others are one process and which, does not count.
TEST(Assembly, EveryRankFindsTheSameParts) {
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

// Seen from any rank: what is decided by it must be the same everywhere.
TEST(TunedNetwork, IsThatOfJobsLikeTheOneItWasMeasuredIn) {
  const std::vector<int> offered = {kind_named("loopback"), kind_named("shm"), kind_named("ucx")};
  std::vector<LinkPeer> peers = peers_on({1, 1, 2, 2});
  const Fingerprint tuned{
      .cpu = "another", .cores = 2, .ranks = 4, .hosts = 2, .transports = "shm,ucx"};
  EXPECT_TRUE(tuned_for(tuned, peers, offered));
  for (const int pid : {77, 78}) peers[static_cast<size_t>(pid - 77)].pid = pid;
  peers[0].same_host = peers[1].same_host = true;
  EXPECT_TRUE(tuned_for(tuned, peers, offered));
  EXPECT_FALSE(tuned_for(tuned, peers_on({1, 1, 2}), offered));
  EXPECT_FALSE(tuned_for(tuned, peers_on({1, 1, 2, 3}), offered));
  EXPECT_FALSE(tuned_for(tuned, peers, std::vector<int>{kind_named("ucx")}));
  EXPECT_FALSE(tuned_for({}, peers, offered));
}

TEST(TunedNetwork, LiesBetweenHostsWhoseRanksShareMemory) {
  MeasuredLinks links;
  links.between = MeasuredLink{.latency_us = 20, .busy_latency_us = 30, .GBps = 1, .busy_GBps = 1};
  const std::vector<int> hosts{0, 1, 0, 1};
  const Hierarchy dealt = Hierarchy::of_labels("host", hosts);
  const auto network = network_of(links, 2, hosts, Medium::kNetwork, dealt);
  ASSERT_TRUE(network);
  EXPECT_EQ(network->levels, dealt);
  EXPECT_NEAR(*network->model.wire_byte.value, 1e-3, 1e-12);
  EXPECT_FALSE(network_of(links, 2, hosts, Medium::kMemory, dealt));
  EXPECT_FALSE(network_of(links, 2, hosts, Medium::kNetwork, {}));  // no memory between the ranks
  EXPECT_FALSE(network_of({}, 2, hosts, Medium::kNetwork, dealt));
  const std::vector<int> each{0, 1, 2};
  EXPECT_EQ(network_of(links, 2, each, Medium::kNetwork, {})->levels.parts(0), 3);
  const std::vector<int> one{0, 0};
  EXPECT_FALSE(network_of(links, 2, one, Medium::kNetwork, {}));
}

TEST(TunedNetwork, HasHostsOfOneRankBelowLeaves) {
  MeasuredLinks links;
  links.between = MeasuredLink{.latency_us = 20, .busy_latency_us = 30, .GBps = 1, .busy_GBps = 1};
  links.beyond = {{"leaf", {.latency_us = 50, .busy_latency_us = 60, .GBps = 1, .busy_GBps = 0.5}}};
  const std::vector<int> hosts{0, 1, 2, 3};
  const Hierarchy leaves = *Hierarchy::make(4, {{"leaf", {{0, 2}, {1, 3}}}});
  const auto network = network_of(links, 2, hosts, Medium::kNetwork, leaves);
  ASSERT_TRUE(network);
  ASSERT_EQ(network->levels.depth(), 2);
  EXPECT_EQ(network->levels.parts(0), 4);
  EXPECT_EQ(network->levels.name(1), "leaf");
  ASSERT_EQ(network->model.tiers.size(), 1U);
  EXPECT_NEAR(*network->model.tiers.front().alpha.value, 60, 1e-9);
}

TEST(SharedTuning, ComesBackAsItWasPacked) {
  SharedTuning tuning{
      .table = "allreduce: ring",
      .tuned_on = {.cores = 2, .ranks = 8, .hosts = 4, .ppn = 3, .transports = "shm,ucx"},
      .links = {.sums = MeasuredSums{.GBps = 20.0 / 3, .far_GBps = 0.1}},
      .ring = {"a", "b.example.org"}};
  tuning.links.between = MeasuredLink{.latency_us = 1.0 / 3,
                                      .busy_latency_us = 0.7,
                                      .message_us = 0,
                                      .GBps = 1e-9,
                                      .busy_GBps = 3e9,
                                      .pairs = 3,
                                      .spread = 0.1};
  tuning.links.beyond = {{"pod", *tuning.links.between}, {"leaf", *tuning.links.between}};
  tuning.links.codecs = {{{.codec = kInt8}, 7.0 / 3, 0.1},
                         {{.codec = kTopk, .half = true, .parameter = 0.01}, 1, 2}};
  for (int turn = 0; turn < 2; ++turn) {
    const auto back = unpack_tuning(pack(tuning));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, tuning);
    std::swap(tuning.links.within, tuning.links.between);
  }
  EXPECT_EQ(*unpack_tuning(pack({})), SharedTuning());
}

TEST(SharedTuning, HasRoomForTheMostThatAFileMaySay) {
  SharedTuning most{.table = std::string(kMostTableText, 'r'),
                    .tuned_on = {.transports = std::string(256, 't')}};
  const MeasuredLink link{
      .latency_us = 1, .busy_latency_us = 1, .GBps = 1, .busy_GBps = 1, .pairs = 1};
  most.links = {.within = link, .between = link, .sums = MeasuredSums{1, 1}};
  for (size_t tier = 0; tier < kMostTiers; ++tier)
    most.links.beyond.push_back({std::string(kMostTierName, static_cast<char>('a' + tier)), link});
  for (size_t codec = 0; codec < kMostTunedCodecs; ++codec)
    most.links.codecs.push_back(
        {{.codec = kThreshold, .parameter = 1.1875 + static_cast<double>(codec)}, 1, 1});
  most.ring.assign(kMostRingHosts, std::string(kMostRingText / kMostRingHosts, 'h'));
  EXPECT_LE(pack(most).size(), kMostTuningPacked);
  EXPECT_EQ(*unpack_tuning(pack(most)), most);
}

TEST(SharedTuning, RefusesWhatNoFileSays) {
  SharedTuning tuning;
  tuning.links.between =
      MeasuredLink{.latency_us = 1, .busy_latency_us = 1, .GBps = 1, .busy_GBps = 1, .pairs = 1};
  tuning.links.beyond = {{"leaf", *tuning.links.between}};
  tuning.ring = {"a"};
  ASSERT_TRUE(unpack_tuning(pack(tuning)).ok());
  const Bytes whole = pack(tuning);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(unpack_tuning(std::span(whole).first(bytes)).status().code(), Code::kCorrupt);
  const auto refused = [&](auto change) {
    SharedTuning other = tuning;
    change(other);
    return unpack_tuning(pack(other)).status().code() == Code::kCorrupt;
  };
  using Limits = std::numeric_limits<double>;
  EXPECT_TRUE(refused([](SharedTuning& other) { other.links.between->GBps = 0; }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.links.between->latency_us = -1; }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.links.between->pairs = 0; }));
  EXPECT_TRUE(
      refused([](SharedTuning& other) { other.links.between->busy_GBps = Limits::quiet_NaN(); }));
  EXPECT_TRUE(refused([](SharedTuning& other) {
    other.links.sums = MeasuredSums{1, Limits::infinity()};
  }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.links.codecs = {{{kInt8}, 0, 1}}; }));
  EXPECT_TRUE(refused([](SharedTuning& other) {
    other.links.codecs = {{{kInt8}, 1, Limits::quiet_NaN()}};
  }));
  EXPECT_TRUE(refused([](SharedTuning& other) {
    other.links.codecs.assign(kMostTunedCodecs + 1, {{kInt8}, 1, 1});
  }));
  using Tiers = std::vector<MeasuredTier>;
  const auto beyond_refused = [&](auto change) {
    return refused([&](SharedTuning& other) { change(other.links.beyond); });
  };
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) { tiers[0].name = ""; }));
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) { tiers[0].name = "a\a"; }));
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) { tiers[0].name.assign(kMostTierName + 1, 'a'); }));
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) { tiers[0].link.GBps = Limits::infinity(); }));
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) { tiers.push_back(tiers[0]); }));
  EXPECT_TRUE(beyond_refused([](Tiers& tiers) {
    for (const char name : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})
      tiers.push_back({std::string(1, name), tiers[0].link});
  }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.ring = {""}; }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.ring.assign(kMostRingHosts + 1, "a"); }));
  EXPECT_TRUE(refused([](SharedTuning& other) { other.ring.assign(5, std::string(1000, 'a')); }));
}

// The name of a runner-up travels where it is one.
TEST(SharedTuning, HasTheTimesOfTheFile) {
  TuningFile file;
  file.rules.push_back({"barrier: star", Measured{4096, 1.0 / 3, 7, "ring", 0.1}});
  file.rules.push_back({"allreduce: ring"});
  file.rules.push_back({"allgather: ring", Measured{.us = 2, .runner_up = std::string(256, 'x')}});
  const MeasuredTimes times = shared(file).measured;
  EXPECT_EQ(times, (MeasuredTimes{file.rules[0].measured, std::nullopt, Measured{.us = 2}}));
  const Bytes whole = pack_times(times);
  EXPECT_EQ(*unpack_times(whole), times);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(unpack_times(std::span(whole).first(bytes)).status().code(), Code::kCorrupt);

  std::string_view longest;
  for (const Algorithm& each : algorithms())
    if (each.name.size() > longest.size()) longest = each.name;
  ASSERT_LE(longest.size(), kMostRunnerUp);
  MeasuredTimes most(kMostTuningRules, Measured{.runner_up = std::string(longest)});
  EXPECT_LE(pack_times(most).size(), kMostTimesPacked);
  EXPECT_EQ(*unpack_times(pack_times(most)), most);
  most.emplace_back();
  EXPECT_FALSE(unpack_times(pack_times(most)).ok());
  using Limits = std::numeric_limits<double>;
  for (const Measured& wrong :
       {Measured{.us = -1}, Measured{.us = Limits::quiet_NaN()}, Measured{.runner_up = "rign"},
        Measured{.runner_up_us = Limits::infinity()}})
    EXPECT_FALSE(unpack_times(pack_times(MeasuredTimes{wrong})).ok());
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
}  // namespace banyan::assembly_test
