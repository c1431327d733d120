// Files that hwloc would not refuse by itself, or not in silence.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/formats/import.h"

namespace banyan::hwloc_check_test {
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

TEST_F(HwlocCheck, MemoryOfVersion1IsAllowedOrIsNotThere) {
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

TEST_F(HwlocCheck, NumaNodesOfVersion1AreInTheOrderOfTheirCpusets) {
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

TEST_F(HwlocCheck, TheOutermostObjectIsAMachine) {
  for (const char* type : {"MemCache", "NUMANode", "PU", "Group", "Bridge", "Misc", "x", ""})
    expect_refused(replaced(version_1(), "Machine", type), "right is a Machine");
  const auto read = import_topology(replaced(version_1(), "Machine", "System"));
  EXPECT_TRUE(read.ok()) << read.status().message();
  EXPECT_FALSE(import_topology(replaced(wide(32, 1), "Machine", "System")).ok());
}

// Whatever else is in a file: hwloc gets what was checked.
TEST_F(HwlocCheck, HwlocSeesWhatWasChecked) {
  const auto plain = import_topology(version_1());
  ASSERT_TRUE(plain.ok());
  const std::string whole = version_1();
  const auto in_front = [&](std::string_view text) { return std::string(text) + whole; };
  const std::vector<std::string> alike = {
      in_front("<!DOCTYPE topology>\n"),
      in_front("<?xml version=\"1.0\"?><!DOCTYPE topology PUBLIC \"a\" \"b\">"),
      in_front("<?xml version='1.0' encoding='ISO-8859-1'?>"),
      in_front("<!DOCTYPE topology [<!ELEMENT object ANY><!ATTLIST object os_index CDATA \"7\">]>"),
      in_front("<!-- <object> -->"),
      replaced(whole, "</object>", "<!-- a comment --></object>"),
      replaced(whole, "</object>", "</object> words <!-- > -->"),
      replaced(whole, "</object>", "<userdata length=\"3\">a&lt;b</userdata></object>"),
      replaced(whole, "type=\"PU\"", "type='PU' name=\"\" Colour=\"red\" v2=\"1\""),
      replaced(whole, "type=\"PU\"", "type=\"&#80;U\" name=\"&#x26;amp; &apos;\xff\""),
      replaced_all(whole, "\n", "\r\n"),
      replaced_all(whole, "\n", ""),
      replaced(whole, "</topology>", "<more><object/></more></topology>"),
  };
  for (const std::string& text : alike) {
    const auto read = import_topology(text);
    ASSERT_TRUE(read.ok()) << read.status().message() << text;
    EXPECT_EQ(*read, *plain) << text;
  }
}

TEST_F(HwlocCheck, MemoryIsInAMachineThatHasSome) {
  for (const char* set : {" nodeset=", " complete_nodeset="})
    expect_refused(replaced(version_1(), set, " other="), "in a Machine without nodeset");
}

// hwloc would make sets of 2^32 numbers of them.
TEST_F(HwlocCheck, ProcessorsAndMemoryHaveNumbersWithinWhatThereIs) {
  for (const char* type : {"NUMANode", "PU"}) {
    const std::string one = fmt::format("type=\"{}\" os_index=\"0\"", type);
    for (const char* number : {"4294967295", "65536", "-1", "x", ""})
      expect_refused(
          replaced(version_1(), one, fmt::format("type=\"{}\" os_index=\"{}\"", type, number)),
          fmt::format("os_index of <object type=\"{}\">: '{}'", type, number));
    expect_refused(replaced(version_1(), one, fmt::format("type=\"{}\"", type)), "os_index of");
  }
}

TEST_F(HwlocCheck, WhatParsersUnderstandDifferentlyIsRefused) {
  const std::string whole = version_1();
  expect_refused(replaced(whole, "<topology>", "<topology xmlns:x=\"a\">"),
                 "xmlns:x=: hwloc's files have no names with a colon");
  expect_refused(replaced(whole, "type=\"PU\"", "x:type=\"Core\" type=\"PU\""), "x:type=");
  expect_refused(replaced(whole, "</topology>", "<x:object/></topology>"), "<x:object>");
  expect_refused(replaced(whole, "</object>", "<x:object/></object>"), "<x:object>");
  expect_refused(replaced(whole, "</object>", "<thing/></object>"), "<thing> in an <object>");
  expect_refused(replaced(whole, "type=\"PU\"", "type=\"PU\" type=\"Core\""), "not XML");
  expect_refused(replaced(wide(32, 1), "2.0", "2.0x"), "version 2.0x");
  expect_refused(replaced(whole, "type=\"PU\"",
                          fmt::format("type=\"PU\" name=\"{}\"", std::string(70000, 'a'))),
                 "name= of more than");
}

// hwloc multiplies rows by rows in 32 bits.
TEST_F(HwlocCheck, MatricesAreAsLargeAsTheySay) {
  const std::string two = wide(32, 2);
  const auto with = [&](std::string_view matrix) {
    return replaced(two, "</topology>", std::string(matrix) + "\n</topology>");
  };
  constexpr const char* kForm =
      "<distances2 type=\"PU\" nbobjs=\"{}\" kind=\"5\" name=\"{}\" indexing=\"os\">"
      "<indexes length=\"9\">{}</indexes><u64values length=\"1\">{}</u64values></distances2>";
  const auto matrix = [&](std::string_view rows, std::string_view indexes, std::string_view values,
                          std::string_view name = "NUMALatency") {
    return with(fmt::format(fmt::runtime(kForm), rows, name, indexes, values));
  };
  for (const char* name : {"NUMALatency", "NVLinkBandwidth", "XGMIBandwidth", "Other"}) {
    EXPECT_TRUE(import_topology(matrix("2", " 0  1\n", "10 20 20\n10", name)).ok());
    expect_refused(matrix("65536", "0", "10", name), "'65536'");
    expect_refused(matrix("65537", "0", "10", name), "'65537'");
    expect_refused(matrix("4294967298", "0 1", "1 2 3 4", name), "'4294967298'");
    expect_refused(matrix("5", "0 1 2 3 4", "1", name), "of 5 rows; the file has 4 objects");
    expect_refused(matrix("2", "0 1", "1 2 3", name), "2 indexes and 3 values; right are 2 and 4");
    expect_refused(matrix("2", "0 1", "1 2 3 4 5", name), "5 values");
    expect_refused(matrix("2", "0", "1 2 3 4", name), "1 indexes");
    expect_refused(matrix("2", "0 0", "1 2 3 4", name), "object 0 is in <indexes> twice");
    expect_refused(matrix("2", "0 01", "1 2 3 4", name), "'01'");
    expect_refused(matrix("2", "PU:0 PU:1", "1 2 3 4", name), "'PU:0'");
    expect_refused(matrix("2", "0 1", "1 2 -3 4", name), "'-3'");
    expect_refused(matrix("2", "0 1", "1 2 18446744073709551616 4", name), "18446744073709551616");
    expect_refused(matrix("", "0 1", "1 2 3 4", name), "nbobjs of <distances2>");
  }
  expect_refused(with("<distances3 nbobjs=\"1\"/>"), "<distances3>");
  // One of version 1 is right in the Machine.
  const auto latencies = [](std::string_view rows, int values) {
    std::string text =
        fmt::format("<distances nbobjs=\"{}\" relative_depth=\"1\" latency_base=\"10\">", rows);
    for (int i = 0; i < values; ++i) text += "<latency value=\"1\"/>";
    return replaced(version_1(), "<object type=\"NUMANode\"",
                    text + "</distances><object type=\"NUMANode\"");
  };
  EXPECT_TRUE(import_topology(latencies("2", 4)).ok());
  expect_refused(latencies("4294967298", 4), "'4294967298'");
  expect_refused(latencies("65536", 0), "'65536'");
  expect_refused(latencies("2", 3), "of 2 rows has 3 values; right are 4");
}

// Attributes and types of others, emptied, and gone.
TEST_F(HwlocCheck, DamagedFilesOfVersion1SayNothingBesideTheError) {
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

TEST_F(HwlocCheck, SetsHaveABeginningAndAnEnd) {
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
}  // namespace banyan::hwloc_check_test
