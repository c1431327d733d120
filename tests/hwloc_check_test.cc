// Files that hwloc would not refuse by itself, or not in silence.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/import.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two NUMANodes of two PUs each, as version 1 nests them.
std::string version_1() {
  std::string text = "<topology>\n";
  const auto open = [&](std::string_view type, int index, unsigned cpus, unsigned nodes) {
    text += fmt::format(
        "<object type=\"{0}\" os_index=\"{1}\" cpuset=\"0x{2:x}\" complete_cpuset=\"0x{2:x}\" "
        "online_cpuset=\"0x{2:x}\" allowed_cpuset=\"0x{2:x}\" nodeset=\"0x{3:x}\" "
        "complete_nodeset=\"0x{3:x}\" allowed_nodeset=\"0x{3:x}\">\n",
        type, index, cpus, nodes);
  };
  open("Machine", 0, 15, 3);
  for (int node = 0; node < 2; ++node) {
    open("NUMANode", node, 3U << (2 * node), 1U << node);
    for (int pu = 2 * node; pu < 2 * node + 2; ++pu) {
      open("PU", pu, 1U << pu, 1U << node);
      text += "</object>\n";
    }
    text += "</object>\n";
  }
  return text + "</object>\n</topology>\n";
}

// Processors of one machine whose sets are of so many numbers.
std::string wide(int numbers, int processors) {
  std::string set = "0x00000001";
  for (int left = numbers - 32; left > 0; left -= 32) set += ",0x00000001";
  const auto object = [](std::string_view type, int index, std::string_view all) {
    return fmt::format(
        "<object type=\"{0}\" os_index=\"{1}\" cpuset=\"{2}\" complete_cpuset=\"{2}\" "
        "nodeset=\"{2}\" complete_nodeset=\"{2}\"",
        type, index, all);
  };
  std::string text = "<topology version=\"2.0\">\n" + object("Machine", 0, set) + ">\n" +
                     object("NUMANode", 0, "0x1") + "/>\n";
  for (int i = 0; i < processors; ++i) text.append(object("PU", i, "0x1")).append("/>\n");
  return text + "</object>\n</topology>\n";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string replaced_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

class HwlocCheck : public testing::Test {
 protected:
  void SetUp() override {
    const auto read = import_topology(version_1());
    if (!read.ok() && read.status().code() == Code::kUnsupported)
      GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->vertices[1].cpus.count(), 4);
  }
};

void expect_refused(const std::string& text, std::string_view named) {
  testing::internal::CaptureStderr();
  const auto read = import_topology(text);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << text;
  ASSERT_FALSE(read.ok()) << text;
  EXPECT_THAT(std::string(read.status().message()), StartsWith("line "));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(named)) << text;
}

TEST_F(HwlocCheck, memory_of_version_1_is_allowed_or_is_not_there) {
  const std::string none =
      replaced(version_1(), "allowed_nodeset=\"0x3\"", "allowed_nodeset=\"0x0\"");
  for (const char* name : {"NUMANode", "Node", "numa"})
    expect_refused(replaced_all(none, "NUMANode", name), "no <object> of type NUMANode");
  expect_refused(replaced(none, "Machine", "System"), "no <object> of type NUMANode");
  // Without a NUMANode, hwloc makes the node 0, where nothing tells of any other.
  const std::string flat = replaced_all(version_1(), "NUMANode", "Socket");
  expect_refused(flat, "no <object> of type NUMANode");
  std::string silent = replaced_all(flat, " nodeset", " x");
  silent = replaced_all(silent, "complete_nodeset", "y");
  expect_refused(replaced(silent, "allowed_nodeset=\"0x3\"", "allowed_nodeset=\"0x2\""),
                 "no <object> of type NUMANode");
  for (const std::string& text : {silent, replaced_all(silent, "allowed_nodeset", "z")})
    EXPECT_TRUE(import_topology(text).ok()) << import_topology(text).status().message();
}

TEST_F(HwlocCheck, numa_nodes_of_version_1_are_in_the_order_of_their_cpusets) {
  const auto with = [](std::string_view cpus, std::string_view complete) {
    return replaced(version_1(), "cpuset=\"0x3\" complete_cpuset=\"0x3\"",
                    fmt::format("cpuset=\"{}\" complete_cpuset=\"{}\"", cpus, complete));
  };
  for (const char* cpus : {"0xf000", "0xc", "0x10", "0x7"})
    expect_refused(with(cpus, "0x3"), "cpuset of <object type=\"NUMANode\"> is not within its");
  for (const char* cpus : {"0x0", "NUMANode", "0x8", "0x10"})
    expect_refused(with(cpus, "0xff"), "its processors come before");
  expect_refused(with("0x0", "0x0"), "its processors come before");
}

TEST_F(HwlocCheck, the_outermost_object_is_a_machine) {
  for (const char* type : {"MemCache", "NUMANode", "PU", "Group", "Bridge", "Misc", "x", ""})
    expect_refused(replaced(version_1(), "Machine", type), "right is a Machine");
  const auto read = import_topology(replaced(version_1(), "Machine", "System"));
  EXPECT_TRUE(read.ok()) << read.status().message();
  EXPECT_FALSE(import_topology(replaced(wide(32, 1), "Machine", "System")).ok());
}

// Attributes and types of others, emptied, and gone.
TEST_F(HwlocCheck, damaged_files_of_version_1_say_nothing_beside_the_error) {
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  constexpr std::array<std::string_view, 14> kValues = {
      "0x0", "0x1",      "0x3",  "0x8", "0xf000", "0xf...f",  "x",
      "",    "NUMANode", "numa", "PU",  "Group",  "MemCache", "Misc"};
  testing::internal::CaptureStderr();
  for (int round = 0; round < 150; ++round) {
    std::string bad = version_1();
    for (auto left = 1 + random() % 3; left > 0; --left) {
      std::vector<std::pair<size_t, size_t>> values;  // begin, bytes
      for (size_t at = 0; (at = bad.find("=\"", at)) != std::string::npos;) {
        at += 2;
        values.emplace_back(at, bad.find('"', at) - at);
      }
      const auto [begin, bytes] = values[random() % values.size()];
      if (random() % 8 == 0)
        bad[begin - 3] = '_';
      else
        bad.replace(begin, bytes, kValues[random() % kValues.size()]);
    }
    const auto read = import_topology(bad);
    if (read.ok()) continue;
    EXPECT_THAT(std::string(read.status().message()), StartsWith("line "));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(HwlocCheck, sets_have_a_beginning_and_an_end) {
  EXPECT_TRUE(import_topology(wide(65536, 1)).ok());
  expect_refused(wide(65536 + 32, 1), "cpuset of more than 65536 numbers");
  for (const std::string& set :
       {"0x1" + std::string(2048, ','), std::string(","), std::string(",0x1"), std::string()}) {
    for (const char* name : {"cpuset", "complete_cpuset", "allowed_cpuset", "nodeset"}) {
      const std::string text = version_1();
      const std::string begin = fmt::format(" {}=\"", name);
      for (const size_t at : {text.find(begin), text.rfind(begin)}) {
        const size_t value = at + begin.size();
        expect_refused(text.substr(0, value) + set + text.substr(text.find('"', value)), name);
      }
    }
    expect_refused(replaced(wide(32, 1), "</topology>",
                            fmt::format("<cpukind cpuset=\"{}\"/></topology>", set)),
                   "cpuset");
  }
}

}  // namespace
}  // namespace banyan
