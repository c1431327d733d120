// What a description has and a topology does not: it is read, and a line says what was left out.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "topology/formats/import.h"
#include "topology/paths.h"

namespace banyan::import_notes_test {
namespace {

using ::testing::UnorderedElementsAreArray;

// A build without an XML parser reads all formats but those.
bool unsupported(const Result<Topology>& read) {
  return !read.ok() && read.status().code() == Code::kUnsupported;
}

int gpu(const Topology& topology, size_t number) {
  return vertices_of(topology, VertexKind::kGpu)[number];
}

// As in a virtual machine, or a container, that has some of a host's GPUs.
TEST(ImportNotes, NvlinksToGpusThatTheFileLacksAreLeftOutWithALine) {
  struct Named {
    const char* kind;
    int others;  // that the file lacks
    const char* note;
  };
  for (const Named& named : {
           Named{"nvlink", 0, ""},
           Named{"nvlink", 1,
                 "line 4: 1 wire to devices that the file does not have is left out: 0000:41:00.0"},
           Named{"xgmi", 10,
                 "line 4: 10 wires to devices that the file does not have are left out: "
                 "0000:41:00.0, 0000:42:00.0, 0000:43:00.0, 0000:44:00.0, 0000:45:00.0, "
                 "0000:46:00.0, 0000:47:00.0, 0000:48:00.0, ..."},
       }) {
    std::string text =
        "<system version=\"2\"><cpu numaid=\"0\" affinity=\"f\">\n"
        "<pci busid=\"21:00.0\" class=\"0x030200\"><gpu dev=\"0\" gcn=\"gfx942\" sm=\"90\">\n";
    text += fmt::format("<{} target=\"0000:22:00.0\" count=\"1\"/>\n", named.kind);
    for (int other = 1; other <= named.others; ++other)
      text += fmt::format("<{} target=\"4{:x}:00.0\" count=\"1\" tclass=\"0x030200\"/>\n",
                          named.kind, other);
    text +=
        "</gpu></pci>\n<pci busid=\"22:00.0\" class=\"0x030200\"><gpu dev=\"1\"/></pci>\n"
        "</cpu></system>";
    Notes notes;
    const auto read = import_topology(text, &notes);
    if (unsupported(read)) GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(Paths(*read).between(gpu(*read, 0), gpu(*read, 1)).type, PathClass::kNvl);
    EXPECT_EQ(vertices_of(*read, VertexKind::kGpu).size(), 2U);
    EXPECT_EQ(notes.lines(), named.others == 0 ? std::vector<std::string>()
                                               : std::vector<std::string>{named.note});
  }
}

// One NUMA domain of two processors, and what is on PCI.
std::string with_devices(std::string_view devices) {
  constexpr std::string_view kSets =
      "cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\"";
  return fmt::format(
      "<topology version=\"2.0\"><object type=\"Machine\" {0}>"
      "<object type=\"NUMANode\" os_index=\"0\" {0}/><object type=\"PU\" os_index=\"0\" {0}/>\n"
      "{1}</object></topology>",
      kSets, devices);
}

std::string pci_device(std::string_view bus_id, std::string_view type, std::string_view within) {
  return fmt::format(
      "<object type=\"PCIDev\" pci_busid=\"{}\" pci_type=\"{} [15b3:101b] [15b3:0007] 00\">{}"
      "</object>\n",
      bus_id, type, within);
}

constexpr const char* kPort =
    "<object type=\"OSDev\" name=\"mlx5_3\" osdev_type=\"3\"><info name=\"Port1State\" "
    "value=\"4\"/></object>";
constexpr const char* kInterface = "<object type=\"OSDev\" name=\"ens3\" osdev_type=\"2\"/>";
constexpr const char* kCuda =
    "<object type=\"OSDev\" name=\"cuda0\" subtype=\"CUDA\" osdev_type=\"5\"/>";

std::vector<std::string> names_of(const Topology& topology, VertexKind kind) {
  std::vector<std::string> names;
  for (const int vertex : vertices_of(topology, kind))
    names.push_back(topology.vertices[static_cast<size_t>(vertex)].name);
  return names;
}

TEST(ImportNotes, DevicesThatHwlocDoesNotTakeAreNamed) {
  const std::string taken = pci_device("0000:01:00.0", "0200", kInterface);
  const std::string behind =
      "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"10000:[00-02]\">"
      "<object type=\"Bridge\" bridge_type=\"1-1\" depth=\"1\" pci_busid=\"10000:00:01.0\" "
      "bridge_pci=\"10000:[01-01]\">";
  struct Lost {
    std::string devices;
    std::vector<std::string> notes;
  };
  for (const Lost& lost : std::vector<Lost>{
           {"", {}},
           {behind + pci_device("10000:01:00.0", "0200", std::string(kInterface) + kPort) +
                "</object></object>",
            {"line 3: the PCI bridge 10000:00:01.0 is left out: hwloc takes no PCI domain beyond "
             "ffff",
             "line 3: the PCI device 10000:01:00.0 (ens3, mlx5_3) is left out: hwloc takes no PCI "
             "domain beyond ffff"}},
           {pci_device("ffffffff:01:00.0", "0302", kCuda),
            {"line 3: the PCI device ffffffff:01:00.0 (cuda0) is left out: hwloc takes no PCI "
             "domain beyond ffff"}},
           {pci_device("1:100:0.0", "0302", kCuda),
            {"line 3: the PCI device (cuda0) is left out: its pci_busid is '1:100:0.0'; right is "
             "one such as 0000:0c:00.0"}},
           {pci_device("0000:01:00.0", "0302", ""),
            {"line 3: the PCI device 0000:01:00.0 is left out: another device has its bus id"}},
           {"<object type=\"PCIDev\" pci_type=\"0200 [15b3:101b] [15b3:0007] 00\"/>",
            {"line 3: the PCI device is left out: it has no pci_busid"}},
           {kCuda, {"line 3: the OS device cuda0 is left out: it is on no PCI device"}},
       }) {
    Notes notes;
    const auto read = import_topology(with_devices(taken + lost.devices), &notes);
    if (unsupported(read)) GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(notes.lines(), lost.notes);
    EXPECT_EQ(names_of(*read, VertexKind::kNic), std::vector<std::string>{"ens3"});
    EXPECT_EQ(names_of(*read, VertexKind::kGpu), std::vector<std::string>());
  }
}

// By its class it is none, and yet a network interface is on it.
TEST(ImportNotes, ADeviceWithAnInterfaceIsANic) {
  for (const char* type : {"0880", "0c06", "0b40", "1180"}) {
    Notes notes;
    const auto read =
        import_topology(with_devices(pci_device("0000:01:00.0", type, kPort)), &notes);
    if (unsupported(read)) GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(names_of(*read, VertexKind::kNic), std::vector<std::string>{"mlx5_3"});
    EXPECT_EQ(notes.lines(), std::vector<std::string>());
  }
}

TEST(ImportNotes, DevicesWithoutANameGetOne) {
  for (const char* name : {"", "name=\"\"", "name=\" \"", "name=\"\t\""}) {
    const std::string interface = fmt::format("<object type=\"OSDev\" {} osdev_type=\"2\"/>", name);
    const std::string port = fmt::format(
        "<object type=\"OSDev\" {} osdev_type=\"3\"><info name=\"Port1State\" value=\"4\"/>"
        "<info name=\"Port2State\" value=\"1\"/></object>",
        name);
    const std::string gpu = fmt::format("<object type=\"OSDev\" {} osdev_type=\"5\"/>", name);
    const auto read = import_topology(with_devices(
        pci_device("0000:01:00.0", "0200", interface) + pci_device("0000:02:00.0", "0207", port) +
        pci_device("0000:03:00.0", "0302", gpu) + interface));
    if (unsupported(read)) GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(names_of(*read, VertexKind::kNic),
              (std::vector<std::string>{"nic-0000:01:00.0", "nic-0000:02:00.0", "nic"}));
    EXPECT_EQ(names_of(*read, VertexKind::kPort),
              (std::vector<std::string>{"nic-0000:01:00.0:1", "nic-0000:02:00.0:1",
                                        "nic-0000:02:00.0:2", "nic:1"}));
    EXPECT_EQ(names_of(*read, VertexKind::kGpu), std::vector<std::string>{"gpu0"});
  }
}

// An adapter of a fabric with one leaf, and its cable.
std::string adapter(std::string_view guid, std::string_view description,
                    std::string_view system = {}) {
  return fmt::format("{0}Ca 1 \"H-{1}\" # \"{2}\"\n[1]({1}) \"S-1\"[{1}] # lid 7 4xHDR\n",
                     system.empty() ? "" : fmt::format("sysimgguid=0x{}\n", system), guid,
                     description);
}

TEST(ImportNotes, MachinesOfOneNameAreToldApartByGuids) {
  struct Case {
    std::string adapters;
    std::vector<std::string> nodes;
    std::vector<std::string> notes;
  };
  const std::string several = "since mlx5_0 is there more than once: they get names by their GUIDs";
  for (const Case& each : std::vector<Case>{
           {adapter("11", "host1 mlx5_0") + adapter("12", "host1 mlx5_1"), {"host1"}, {}},
           {adapter("11", "localhost mlx5_0") + adapter("12", "localhost mlx5_0") +
                adapter("13", "(none) mlx5_0"),
            {"localhost-11", "localhost-12", "(none)"},
            {"line 2: several machines are called 'localhost', " + several}},
           {adapter("11", "a mlx5_0") + adapter("21", "b mlx5_0") + adapter("12", "a mlx5_0") +
                adapter("22", "b mlx5_0"),
            {"a-11", "a-12", "b-21", "b-22"},
            {"line 2: several machines are called 'a', " + several,
             "line 4: several machines are called 'b', " + several}},
           // Two functions of a card are in one machine, whatever its name.
           {adapter("11", "a mlx5_0", "1") + adapter("12", "a mlx5_1", "1") +
                adapter("21", "a mlx5_0", "2") + adapter("22", "a mlx5_1", "2"),
            {"a-11", "a-21"},
            {"line 3: several machines are called 'a', " + several}},
           {adapter("11", "a mlx5_0", "1") + adapter("12", "a mlx5_0", "1"),
            {"a-11", "a-12"},
            {"line 3: several machines are called 'a', " + several}},
       }) {
    Notes notes;
    const auto read = import_topology("Switch 41 \"S-1\" # \"leaf\"\n" + each.adapters, &notes);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_THAT(names_of(*read, VertexKind::kNode), UnorderedElementsAreArray(each.nodes));
    EXPECT_EQ(notes.lines(), each.notes);
    EXPECT_EQ(vertices_of(*read, VertexKind::kNic).size(), read->edges.size());
  }
}

TEST(ImportNotes, CablesToDevicesThatAFabricLacksAreLeftOutWithALine) {
  Notes notes;
  const auto read = import_topology(
      "Switch 41 \"S-1\" # \"leaf\"\n[1] \"S-2\"[1] # \"spine\" 4xHDR\n[2] \"S-2\"[2] # 4xHDR\n" +
          adapter("11", "host1 mlx5_0"),
      &notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->edges.size(), 1U);
  EXPECT_EQ(notes.lines(), std::vector<std::string>{"2 cables to devices that the file does not "
                                                    "have are left out: S-2"});
}

// NCCL's files and ibnetdiscover's have such blanks, too.
TEST(ImportNotes, BlanksAreNoName) {
  const auto fabric = import_topology("Switch 41 \"S-1\" # \" \"\n" + adapter("11", "  "));
  ASSERT_TRUE(fabric.ok()) << fabric.status().message();
  EXPECT_EQ(names_of(*fabric, VertexKind::kSwitch), std::vector<std::string>{"S-1"});
  EXPECT_EQ(names_of(*fabric, VertexKind::kNode), std::vector<std::string>{"H-11"});
  EXPECT_EQ(names_of(*fabric, VertexKind::kPort), std::vector<std::string>{"H-11:1"});
  EXPECT_FALSE(import_topology("Switch 41 \" \" # \"leaf\"\n").ok());
  const auto node = import_topology(
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\"><nic><net name=\" \" dev=\"0\" "
      "port=\"1\" speed=\"1000\"/></nic></cpu></system>");
  if (unsupported(node)) GTEST_SKIP() << node.status().message();
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(names_of(*node, VertexKind::kNic), std::vector<std::string>{"nic0"});
  EXPECT_EQ(names_of(*node, VertexKind::kPort), std::vector<std::string>{"nic0:1"});
}

}  // namespace
}  // namespace banyan::import_notes_test
