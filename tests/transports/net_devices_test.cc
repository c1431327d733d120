// BANYAN_NET_DEVICES against devices of an invented machine.
// SPDX-License-Identifier: Apache-2.0

#include "transports/net_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace banyan::net_devices_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> devices = {"eth0", "lo", "mlx5_0:1", "mlx5_0:2", "mlx5_1:1"};

std::string chosen(std::string_view text) {
  const Result<std::string> result = choose_net_devices(text, devices);
  return result.ok() ? *result : std::string(result.status().message());
}

TEST(NetDevices, AreGivenByTheirFullNames) {
  EXPECT_EQ(chosen(""), "");
  EXPECT_EQ(chosen("all"), "all");
  EXPECT_EQ(chosen("lo"), "lo");
  EXPECT_EQ(chosen("mlx5_1:1, eth0"), "eth0,mlx5_1:1");
  EXPECT_EQ(chosen("mlx5_0"), "mlx5_0:1,mlx5_0:2");
  EXPECT_EQ(chosen("mlx5_0,mlx5_0:2"), "mlx5_0:1,mlx5_0:2");
  EXPECT_EQ(chosen("eth0,all"), "all");
}

TEST(NetDevices, AreLeftOutAfterACaret) {
  EXPECT_EQ(chosen("^lo"), "eth0,mlx5_0:1,mlx5_0:2,mlx5_1:1");
  EXPECT_EQ(chosen("^mlx5_0,mlx5_1:1"), "eth0,lo");
}

TEST(NetDevices, ThatAreWrongAreNamedWithWhatWouldBeRight) {
  struct Case {
    const char *text, *named;
  };
  for (const Case& bad : std::initializer_list<Case>{{"zz", "BANYAN_NET_DEVICES=zz: word 1 'zz' "},
                                                     {"lo,mlx5_0:3", "word 2 'mlx5_0:3' "},
                                                     {"all,zz", "word 2 'zz' "},
                                                     {"lo,", "word 2 '' "},
                                                     {"^lo,zz", "word 2 'zz' "},
                                                     {"lo,^eth0", "word 2 '^eth0' "},
                                                     {"^", "word 1 '' "},
                                                     {"^all", "BANYAN_NET_DEVICES=^all leaves "},
                                                     {"eth", "word 1 'eth' "}}) {
    const Result<std::string> result = choose_net_devices(bad.text, devices);
    ASSERT_FALSE(result.ok()) << bad.text;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                AllOf(HasSubstr(bad.named),
                      EndsWith("valid: eth0, lo, mlx5_0, mlx5_0:1, mlx5_0:2, mlx5_1, mlx5_1:1, "
                               "all")));
  }
}

TEST(NetDevices, AreNotJudgedWhereTheMachineSaysNothing) {
  EXPECT_EQ(*choose_net_devices("zz", {}), "zz");
}

const std::string shared_address = "172.17.0.1 is an address of rank 1's host, too";

std::string left(std::string_view text, const std::vector<Interface>& interfaces) {
  const Result<std::string> result =
      leading_out(text, *choose_net_devices(text, devices), devices, interfaces);
  return result.ok() ? *result : std::string(result.status().message());
}

TEST(NetDevices, ThatLeadNowhereAreLeftOut) {
  const std::vector<Interface> docker = {
      {"lo", "is loopback", true}, {"eth0"}, {"docker0", shared_address}};
  EXPECT_EQ(left("", docker), "eth0,mlx5_0:1,mlx5_0:2,mlx5_1:1");
  EXPECT_EQ(left("all", docker), "eth0,mlx5_0:1,mlx5_0:2,mlx5_1:1");
  EXPECT_EQ(left("mlx5_0", docker), "mlx5_0:1,mlx5_0:2");
  EXPECT_EQ(left("lo,eth0", docker), "eth0");
  // Nobody has to say what UCX finds by itself.
  EXPECT_EQ(left("", {{"lo", "is loopback", true}, {"eth0"}}), "");
  EXPECT_EQ(left("", {}), "");
  EXPECT_EQ(left("eth0,lo", {}), "eth0,lo");
}

TEST(NetDevices, OfWhichNoneLeadsAnywhereAreNamedWithTheReasons) {
  EXPECT_THAT(
      left("eth0", {{"eth0", shared_address}, {"eth1"}}),
      AllOf(HasSubstr("BANYAN_NET_DEVICES=eth0: none leads to this host from the others"),
            HasSubstr("eth0: " + shared_address), EndsWith("name others (eth1), or unset it")));
  EXPECT_THAT(left("lo", {{"lo", "127.0.0.1 is loopback", true}}),
              AllOf(HasSubstr("lo: 127.0.0.1 is loopback"), EndsWith("and no other does")));
  const std::vector<std::string> one = {"docker0", "lo"};
  const Result<std::string> none =
      leading_out("", "", one, std::vector<Interface>{{"docker0", shared_address}});
  EXPECT_EQ(none.status().code(), Code::kSystem);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("docker0: " + shared_address));
}

class Machine : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((sys_ / file).parent_path());
    std::ofstream(sys_ / file) << text << "\n";
  }
  test::TemporaryFolder folder_;
  const std::filesystem::path& sys_ = folder_.path();
};

TEST_F(Machine, HasTheInterfacesAndPortsThatAreUp) {
  EXPECT_THAT(net_devices(sys_), IsEmpty());
  write("net/lo/operstate", "unknown");
  write("net/eth0/operstate", "up");
  write("net/docker0/operstate", "down");
  write("net/bonding_masters", "bond0");
  write("infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("infiniband/mlx5_0/ports/2/state", "1: DOWN");
  write("infiniband/rxe0/ports/1/state", "4: ACTIVE");
  EXPECT_THAT(net_devices(sys_), ElementsAre("eth0", "lo", "mlx5_0:1", "rxe0:1"));
}

TEST_F(Machine, SaysHowFastItsDevicesAre) {
  write("net/eth0/speed", "25000");
  write("net/veth0/speed", "-1");
  write("net/eth1/speed", "2500");
  write("infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  EXPECT_EQ(rate_of_device("eth0", sys_), "25 Gb/s");
  EXPECT_EQ(rate_of_device("eth1", sys_), "2.5 Gb/s");
  EXPECT_EQ(rate_of_device("mlx5_0:1", sys_), "200 Gb/s");
  for (const char* unknown : {"veth0", "lo", "mlx5_0:2", "mlx5_1:1", ""})
    EXPECT_EQ(rate_of_device(unknown, sys_), "") << unknown;
}

}  // namespace
}  // namespace banyan::net_devices_test
