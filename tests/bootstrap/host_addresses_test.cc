// Invented hosts show which addresses lead from one to another. Errors of sockets are told apart by
// whether waiting mends them.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/host_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "src/bootstrap/rendezvous_socket.h"
#include "src/liveness/introduction.h"
#include "src/liveness/links.h"
#include "tests/support/rendezvous_place.h"

namespace banyan::host_addresses_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint8_t kBits = 24;

HostAddress at(const std::string& interface, const std::string& host, bool bridge = false) {
  const bool v6 = host.find(':') != std::string::npos;
  Address address = *resolve(v6 ? "[" + host + "]:1" : host + ":1");
  address.port = 0;
  return {interface, address, kBits, bridge};
}

Address ip(const std::string& host) {
  return at("", host).address;
}

std::vector<std::string> texts(const HostAddresses& host) {
  std::vector<std::string> all;
  for (const HostAddress& one : host.all) all.push_back(one.interface + " " + one.address.host());
  return all;
}

// It has its own network, and all of them are usable.
HostAddresses host(uint8_t number, std::vector<HostAddress> all) {
  HostAddresses made;
  made.network.fill(number);
  made.host = "host" + std::to_string(number);
  made.usable = static_cast<uint8_t>(all.size());
  made.all = std::move(all);
  return made;
}

std::string way(const std::vector<HostAddresses>& hosts, int rank) {
  const auto found = AddressBook(hosts).way_to(rank);
  return found.ok() ? found->interface + " " + found->address.host()
                    : std::string(found.status().message());
}

std::vector<std::string> dead_ends(const std::vector<HostAddresses>& hosts, int rank) {
  std::vector<std::string> names;
  for (const Interface& one : AddressBook(hosts).interfaces(rank))
    if (!one.dead_end.empty()) names.push_back(one.name);
  return names;
}

const std::vector<HostAddress> one_host = {
    at("lo", "127.0.0.1"),  at("usb0", "169.254.3.1"), at("docker0", "172.17.0.1", true),
    at("eth0", "10.0.0.1"), at("eth1", "10.1.0.1"),    at("lo", "::1"),
    at("eth1", "fd00::1"),
};

TEST(HostAddresses, ComeInTheOrderOfTheirUse) {
  const std::vector<Address> outward = {ip("10.1.0.1")};
  const HostAddresses plain = in_order(one_host, "", std::nullopt, outward);
  EXPECT_THAT(texts(plain),
              ElementsAre("eth1 10.1.0.1", "eth0 10.0.0.1", "eth1 fd00::1", "docker0 172.17.0.1",
                          "lo 127.0.0.1", "lo ::1", "usb0 169.254.3.1"));
  EXPECT_EQ(plain.usable, 6);
  EXPECT_FALSE(plain.chosen);
  EXPECT_THAT(texts(in_order(one_host, "", ip("10.0.0.1"), outward)).front(), "eth0 10.0.0.1");
  EXPECT_THAT(texts(in_order(one_host, "", ip("fd00::1"), outward)).front(), "eth1 fd00::1");
  // Where ranks have met by one, it works.
  const HostAddresses cable = in_order(one_host, "", ip("169.254.3.1"), outward);
  EXPECT_THAT(texts(cable).front(), "usb0 169.254.3.1");
  EXPECT_EQ(cable.usable, 7);
}

TEST(HostAddresses, OfTheChosenInterfaceAreTheOnlyOnesThatAreUsed) {
  const HostAddresses docker = in_order(one_host, "docker0", ip("10.0.0.1"), {});
  EXPECT_EQ(docker.usable, 1);
  EXPECT_TRUE(docker.chosen);
  EXPECT_EQ(texts(docker).front(), "docker0 172.17.0.1");
  EXPECT_EQ(docker.all.size(), one_host.size());
  const HostAddresses usb = in_order(one_host, "usb0", std::nullopt, {});
  EXPECT_EQ(usb.usable, 1);
  EXPECT_EQ(texts(usb).front(), "usb0 169.254.3.1");
  EXPECT_EQ(in_order(one_host, "nosuch0", std::nullopt, {}).usable, 0);
}

TEST(AddressBook, PassesByWhatTwoHostsHave) {
  const auto bridge = at("docker0", "172.17.0.1");
  const std::vector<HostAddresses> two = {
      host(0, {bridge, at("eth0", "10.0.0.1")}),
      host(1, {at("br-1f", "172.17.0.1"), at("e", "10.0.0.2")})};
  EXPECT_EQ(way(two, 0), "eth0 10.0.0.1");
  EXPECT_EQ(way(two, 1), "e 10.0.0.2");
  EXPECT_THAT(dead_ends(two, 0), ElementsAre("docker0"));
  EXPECT_THAT(dead_ends(two, 1), ElementsAre("br-1f"));
  // Where two of three have it, it leads from the third to neither, either.
  const std::vector<HostAddresses> three = {host(0, {bridge, at("eth0", "10.0.0.1")}),
                                            host(1, {at("eth0", "10.0.0.2")}),
                                            host(2, {bridge, at("eth0", "10.0.0.3")})};
  EXPECT_EQ(way(three, 0), "eth0 10.0.0.1");
  EXPECT_EQ(way(three, 2), "eth0 10.0.0.3");
  EXPECT_THAT(dead_ends(three, 1), IsEmpty());
  EXPECT_THAT(dead_ends(three, 2), ElementsAre("docker0"));
}

TEST(AddressBook, LetsRanksOfOneNetworkUseAllOfIt) {
  const std::vector<HostAddresses> users = {host(7, {at("lo", "127.0.0.1")}),
                                            host(7, {at("lo", "127.0.0.1")})};
  EXPECT_EQ(way(users, 0), "lo 127.0.0.1");
  EXPECT_THAT(AddressBook(users).interfaces(0), IsEmpty());
  // Two share a network, and one has another.
  const std::vector<HostAddresses> mixed = {host(7, {at("lo", "127.0.0.1"), at("e", "10.0.0.1")}),
                                            host(7, {at("lo", "127.0.0.1"), at("e", "10.0.0.1")}),
                                            host(8, {at("e", "10.0.0.2")})};
  EXPECT_EQ(way(mixed, 0), "e 10.0.0.1");
  EXPECT_EQ(way(mixed, 1), "e 10.0.0.1");
  EXPECT_THAT(dead_ends(mixed, 0), ElementsAre("lo"));
}

TEST(AddressBook, KnowsBridgesToContainersByTheirNetworks) {
  const std::vector<HostAddresses> hosts = {
      host(0,
           {at("eth0", "10.0.0.1"), at("cni0", "172.18.0.1", true), at("br0", "10.1.0.1", true)}),
      host(1, {at("eth0", "10.0.0.2"), at("cni0", "172.19.0.1"), at("br0", "10.1.0.2")})};
  EXPECT_THAT(dead_ends(hosts, 0), ElementsAre("cni0"));
  EXPECT_EQ(AddressBook(hosts).interfaces(0)[1].dead_end,
            "172.18.0.1 is of a bridge, in whose network (/24) no other host is");
  // What leads out, or has brought the ranks together, is no such bridge.
  const auto found = in_order({at("br0", "10.1.0.1", true), at("br1", "10.2.0.1", true)}, "",
                              ip("10.1.0.1"), std::vector<Address>{ip("10.2.0.1")});
  EXPECT_FALSE(found.all[0].bridge);
  EXPECT_FALSE(found.all[1].bridge);
}

TEST(AddressBook, TakesAFamilyThatAllHostsHave) {
  std::vector<HostAddresses> hosts = {
      host(0, {at("eth0", "10.0.0.1"), at("eth0", "fd00::1")}),
      host(1, {at("eth0", "fd00::2"), at("lo", "127.0.0.1"), at("usb0", "169.254.1.1")})};
  hosts[1].usable = 2;
  EXPECT_EQ(way(hosts, 0), "eth0 fd00::1");
  EXPECT_EQ(way(hosts, 1), "eth0 fd00::2");
}

TEST(AddressBook, SaysOfEveryAddressWhyItLeadsNowhere) {
  std::vector<HostAddresses> hosts = {
      host(0, {at("docker0", "172.17.0.1"), at("lo", "127.0.0.1"), at("usb0", "169.254.3.1")}),
      host(1, {at("virbr0", "172.17.0.1"), at("eth0", "10.0.0.2")})};
  hosts[0].usable = 2;
  EXPECT_THAT(
      way(hosts, 0),
      AllOf(HasSubstr("no address leads from the other hosts to rank 0 (host0): "),
            HasSubstr("172.17.0.1 (docker0) is an address of rank 1's host, too (host1, "
                      "virbr0)"),
            HasSubstr("127.0.0.1 (lo) is loopback"), HasSubstr("169.254.3.1 (usb0) is link-local"),
            HasSubstr("BANYAN_SOCKET_IFNAME names the interface")));
  EXPECT_EQ(AddressBook(hosts).way_to(0).status().code(), Code::kSystem);
  // What its user has chosen counts, and is what is wrong.
  hosts[1].usable = 1;
  hosts[1].chosen = true;
  EXPECT_THAT(way(hosts, 1), AllOf(HasSubstr("172.17.0.1 (virbr0) is an address of rank 0's host"),
                                   HasSubstr("BANYAN_SOCKET_IFNAME=virbr0 chooses it there"),
                                   Not(HasSubstr("10.0.0.2"))));
  EXPECT_EQ(AddressBook(hosts).way_to(1).status().code(), Code::kInvalidArgument);
  EXPECT_THAT(way({host(0, {}), host(1, {})}, 0), HasSubstr("(host0): it has none; "));
  hosts[1].usable = 0;
  EXPECT_THAT(way(hosts, 1), HasSubstr("BANYAN_SOCKET_IFNAME names there is not up"));
}

TEST(Rendezvous, IsFoundAtAnyOfItsAddresses) {
  const Key key = *random_key();
  const auto opened = open_rendezvous(
      {loopback(), {}, key, deadline_after(20), {ip("127.0.0.2"), ip("192.0.2.77")}}, silent());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto with_port = [&](const std::string& host) {
    Address address = ip(host);
    address.port = opened->port;
    return address;
  };
  const auto join = [&](int rank, std::vector<Address> candidates) {
    return join_rendezvous({.rank = rank,
                            .size = 2,
                            .candidates = std::move(candidates),
                            .must_listen = true,
                            .key = key,
                            .deadline = deadline_after(20)},
                           silent());
  };
  const Status nobody = join(1, {with_port("127.0.0.3"), with_port("127.0.0.4")}).status();
  EXPECT_EQ(nobody.code(), Code::kInvalidUsage);
  EXPECT_TRUE(has(nobody, "nothing listens at 127.0.0.4:")) << nobody.message();
  together(2, [&](int rank) {
    const auto exchange =
        join(rank, {with_port("127.0.0.3"), with_port(rank == 0 ? "127.0.0.1" : "127.0.0.2")});
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    EXPECT_EQ((*exchange)->met_by().has_value(), true);
  });
}

// An exchange whose ranks take each other for ranks of other networks.
class Apart final : public Exchange {
 public:
  explicit Apart(Exchange& exchange) : exchange_(exchange) {}

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::optional<Key> key() const override { return exchange_.key(); }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine, TimePoint end) override {
    auto introduction = parse_introduction(mine);
    if (!introduction.ok()) return exchange_.allgather(mine, end);
    introduction->addresses.network.fill(static_cast<uint8_t>(rank()));
    return exchange_.allgather(encode_introduction(*introduction), end);
  }

 private:
  Exchange& exchange_;
};

TEST(Links, ToWhichNoAddressLeadsFailAtOnceAndAlike) {
  const Place place;
  const TimePoint begin = Clock::now();
  together(3, [&](int rank) {
    auto exchange = place.join(rank, 3);
    ASSERT_TRUE(exchange.ok());
    Apart apart(**exchange);
    HostIdentity here{"host" + std::to_string(rank), {}};
    here.digest.fill(static_cast<uint8_t>(rank));
    Environment environment;
    environment.socket_interface = "lo";
    const Status status =
        connect_links(apart, here, environment, deadline_after(60), silent()).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(has(status, "to rank 0 (host0): 127.0.0.1 (lo) is loopback")) << status.message();
    EXPECT_TRUE(has(status, "BANYAN_SOCKET_IFNAME=lo chooses it there")) << status.message();
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST(Links, SayThatRanksWhoMetByAnAddressUseIt) {
  const Place place;
  const auto exchange = place.join(0, 1);
  ASSERT_TRUE(exchange.ok());
  EXPECT_EQ((*exchange)->met_by(), loopback());
}

TEST(Errors, ThatWaitingMendsAreFewAndTheOthersAreFinal) {
  for (const int error : {EADDRINUSE, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTDOWN,
                          EHOSTUNREACH, EINTR, ENETRESET, ETIMEDOUT})
    EXPECT_TRUE(waiting_mends(error)) << error;
  for (const int error : {ENETUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT,
                          EACCES, EPERM, EINVAL, EMFILE, ENFILE, ENOMEM, ENOBUFS, 0})
    EXPECT_FALSE(waiting_mends(error)) << error;
}

// Nothing is sent to an address of which the kernel itself says that no way leads there.
TEST(Errors, ThatWaitingDoesNotMendEndAJoinAtOnce) {
  JoinOptions options{.rank = 1, .size = 2, .candidates = {ip("255.255.255.255")}};
  options.candidates[0].port = 4711;
  options.deadline = deadline_after(60);
  const TimePoint begin = Clock::now();
  const Status alone = join_rendezvous(options, silent()).status();
  EXPECT_EQ(alone.code(), Code::kSystem);
  EXPECT_TRUE(has(alone,
                  "rank 1 cannot reach where the ranks meet: connect to "
                  "255.255.255.255:4711: "))
      << alone.message();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  // Another candidate may yet be there.
  options.candidates.push_back(listen_at(loopback(), {})->address);
  options.deadline = deadline_after(0.2);
  EXPECT_EQ(join_rendezvous(options, silent()).status().code(), Code::kTimeout);
}

TEST(Addresses, AreReadAndWritten) {
  EXPECT_EQ(resolve("127.0.0.1:4711")->text(), "127.0.0.1:4711");
  EXPECT_EQ(resolve("[::1]:80")->text(), "[::1]:80");
  EXPECT_EQ(resolve("[::ffff:192.0.2.1]:80")->text(), "192.0.2.1:80");
  EXPECT_EQ(listen_at(*resolve("[::ffff:0.0.0.0]:80"), {}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(resolve("localhost:9")->loopback());
  EXPECT_TRUE(resolve("[::1]:80")->loopback());
  EXPECT_FALSE(resolve("192.0.2.1:80")->loopback());
  for (const char* bad : {"", "nowhere", ":1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                          "127.0.0.1:x", "::1:80", "127.0.0.1:-1", "[::1:80", "127.0.0.1"}) {
    EXPECT_EQ(resolve(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Addresses, OfInterfaces) {
  Environment environment;
  EXPECT_EQ(listening_address(environment, true)->text(), "127.0.0.1:0");
  environment.socket_interface = "lo";
  EXPECT_TRUE(listening_address(environment, false)->loopback());
  EXPECT_TRUE(listening_address(environment, true)->loopback());
  environment.socket_interface = "nosuch0";
  const auto none = listening_address(environment, true);
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(has(none.status(), "BANYAN_SOCKET_IFNAME=nosuch0"));
}

}  // namespace
}  // namespace banyan::host_addresses_test
