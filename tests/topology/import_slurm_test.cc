// Slurm's topology.conf, as it may be written.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "topology/formats/import.h"

namespace banyan::import_slurm_test {
namespace {

using ::testing::StartsWith;

size_t count(const Topology& topology, VertexKind kind) {
  return vertices_of(topology, kind).size();
}

// As Slurm's own reader of such files takes them.
TEST(ImportSlurm, SlurmTreesMayHaveBlanksAndQuotesAnywhere) {
  const auto plain = import_topology(
      "SwitchName=l1 Nodes=n1,n2,n7\nSwitchName=l2 Nodes=n3\n"
      "SwitchName=top Switches=l1,l2 LinkSpeed=100\n");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  for (const char* text : {
           "SwitchName = l1 Nodes\t= \"n[1-2],n7\"\n switchname= \"l2\" NODES =n3 # no Nodes=x\n"
           "SwitchName=top Switches=\"l[1-2]\" LINKSPEED=1\n",
           "SWITCHNAME\t=\tl1 nodes=\"n1, n2\tn7\"\r\nSwitchName=l2 Nodes=\"n3\"\r\n"
           "SwitchName=top Switches=l1,\\\r\nl2\r\n",
           "# \\\nSwitchName=l1 Nodes=\"n[1-2, 7]\"\nSwitch\\\nName=l2 Nodes=n\\3\n"
           "SwitchName=top \\ # a remark\n Switches=l[1-2]",
       }) {
    const auto read = import_topology(text);
    ASSERT_TRUE(read.ok()) << read.status().message() << text;
    EXPECT_EQ(*read, *plain) << text;
  }
}

TEST(ImportSlurm, NumbersOfASlurmTreeAreAsLongAsTheyAre) {
  const auto read = import_topology(
      "SwitchName=s20260301000000000001 Nodes=w[2026030101-2026030102],z[0008-0010]\n"
      "SwitchName=t Switches=s2026030100000000000[1]\n"
      "SwitchName=u Nodes=x[18446744073709551614-18446744073709551615],y[8-11]z[07]\n");
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (const char* name :
       {"w2026030101", "w2026030102", "z0008", "z0009", "z0010", "x18446744073709551614",
        "x18446744073709551615", "y8z07", "y11z07", "s20260301000000000001"})
    EXPECT_GE(find_vertex(*read, name), 0) << name;
  EXPECT_EQ(count(*read, VertexKind::kNode), 11U);
  // A name has an end, however often it is there.
  for (const std::string& list :
       {"n[" + std::string(100000, '0') + "1-1000000]", std::string(300, 'n') + "[1-1000000]"}) {
    const auto refused = import_topology("SwitchName=s Nodes=" + list);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.status().message()), StartsWith("line 1: nodes="));
  }
}

TEST(ImportSlurm, WordsOfASlurmTreeAreApartByBlanksOfAnyKind) {
  const auto tree = import_topology("SwitchName=leaf\tNodes=n[0-3] \t LinkSpeed=1\r\n");
  EXPECT_EQ(count(*tree, VertexKind::kNode), 4U);
  EXPECT_EQ(count(*tree, VertexKind::kSwitch), 1U);
}

// Each list is allowed, all of them together are not: a kilobyte would become gigabytes.
TEST(ImportSlurm, ListsOfASlurmTreeHaveALimitTogether) {
  std::string bomb;
  for (int i = 0; i < 30; ++i) bomb += fmt::format("SwitchName=s{} Nodes=a{}x[0-999999]\n", i, i);
  const auto read = import_topology(bomb);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), StartsWith("line 2: more than 1048576 names"));
}

}  // namespace
}  // namespace banyan::import_slurm_test
