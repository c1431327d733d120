// What UCX makes of the network, by the text that it writes of an endpoint.
// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/ucx_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/transports/wiring.h"

namespace banyan::ucx_network_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Lanes, AreReadFromWhatUcxWritesOfAnEndpoint) {
  EXPECT_THAT(lanes_in("#\n# UCP endpoint \n#\n#               peer: host1:27\n"
                       "#                 lane[0]:  0:tcp/eth0.0 md[0]    -> md[0]/tcp/sysdev[255] "
                       "rma_bw#0 am am_bw#0 wireup\n#\n"),
              ElementsAre("tcp/eth0"));
  EXPECT_THAT(lanes_in("#  lane[0]:  5:rc_mlx5/mlx5_0:1.0 md[4] -> md[4]/ib/sysdev[2] am\n"
                       "#  lane[1]: 12:rc_mlx5/mlx5_1:1.0 md[5] -> md[5]/ib/sysdev[3] rma_bw#1\n"
                       "#  lane[2]:  5:rc_mlx5/mlx5_0:1.1 md[4] -> md[4]/ib/sysdev[2] am_bw#1\n"),
              ElementsAre("rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_1:1"));
  // An interface of a VLAN has a point in its name.
  EXPECT_THAT(lanes_in("# lane[0]:  0:tcp/eth0.7.0 md[0] ->"), ElementsAre("tcp/eth0.7"));
}

TEST(Lanes, AreNoneWhereTheTextIsAnother) {
  for (const char* text : {"", "# UCP endpoint", "# lane[0]: <unknown>", "# lane[0]: cm rdmacm",
                           " md[0] lane[0]:", "lane[0]: 1:self md[0]", "lane[ md["})
    EXPECT_THAT(lanes_in(text), IsEmpty()) << text;
}

TEST(Lanes, AreToldForPeersHereAndElsewhere) {
  test::Mesh mesh(4, test::Mesh::Ranks::kThreads);
  const test::MeshWiring wiring(mesh, 0);  // all of one host
  const std::vector<std::vector<std::string>> lanes = {{"tcp/no0"}, {"tcp/no0"}, {"tcp/no1"}};
  EXPECT_EQ(who_is_reached(wiring, wiring.others(), lanes),
            "tcp/no0, tcp/no1 to 3 ranks of this host");
  EXPECT_EQ(who_is_reached(wiring, std::vector<int>{2}, std::vector<std::vector<std::string>>{{}}),
            "devices that it does not name to 1 rank of this host");
}

}  // namespace
}  // namespace banyan::ucx_network_test
