// Discovery: trees of sysfs made to order, NVML made to order, and this host.
// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/discover.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/topology/sysfs_tree.h"
#include "topology/discovery/gpus.h"
#include "topology/discovery/network.h"
#include "topology/discovery/read_processors.h"
#include "topology/pci.h"
#include "topology/processors.h"

namespace banyan::discover_test {
namespace {

namespace fs = std::filesystem;
using test::path_class;
using test::Tree;
using test::vertex;
using ::testing::HasSubstr;

TEST(Pci, BusIdsBecomeOneForm) {
  EXPECT_EQ(normal_bus_id("0000:0C:00.0"), "0000:0c:00.0");
  EXPECT_EQ(normal_bus_id("00000000:0C:00.0"), "0000:0c:00.0");
  EXPECT_EQ(normal_bus_id("c:00.1"), "0000:0c:00.1");
  EXPECT_EQ(normal_bus_id("ffff:ff:01.0"), "ffff:ff:01.0");
  EXPECT_EQ(normal_bus_id("10001:e1:1f.7"), "10001:e1:1f.7");
  for (const char* text : {"", "virtio2", "0000:0c:00", "0000:0c:20.0", "0000:0c:00.8", "x:y:z.w",
                           "1:2:3:4.5", "0000:100:00.0", "-1:00:00.0"})
    EXPECT_EQ(normal_bus_id(text), "") << text;
}

TEST(Pci, BandwidthIsLessTheCoding) {
  const auto value = [](const char* speed, int lanes) {
    return pcie_bandwidth(speed, lanes, Source::kHardware).value.value_or(-1);
  };
  EXPECT_DOUBLE_EQ(value("2.5 GT/s", 16), 4);
  EXPECT_DOUBLE_EQ(value("5.0 GT/s PCIe", 8), 4);
  EXPECT_NEAR(value("8.0 GT/s PCIe", 16), 15.754, 1e-3);
  EXPECT_NEAR(value("16 GT/s", 16), 31.508, 1e-3);
  EXPECT_NEAR(value("32.0 GT/s PCIe", 16), 63.015, 1e-3);
  EXPECT_NEAR(value("64.0 GT/s PCIe", 16), 121, 1e-9);
  for (const char* speed :
       {"", "Unknown", "Unknown speed", "0 GT/s", "-8 GT/s", "8 Gb/s", "nan GT/s"})
    EXPECT_EQ(value(speed, 16), -1) << speed;
  for (const int lanes : {0, -1, 63, 255}) EXPECT_EQ(value("8 GT/s", lanes), -1) << lanes;
}

TEST(Network, RatesOfRdmaPorts) {
  EXPECT_EQ(rdma_rate("400 Gb/sec (4X NDR)"), Figure({50, Source::kHardware}));
  EXPECT_EQ(rdma_rate("2.5 Gb/sec (1X SDR)"), Figure({0.3125, Source::kHardware}));
  for (const char* text : {"", "fast", "-5 Gb/sec", "400 Mb/sec", "nan Gb/sec", "inf Gb/sec"})
    EXPECT_FALSE(rdma_rate(text).known()) << text;
}

TEST(Interconnect, IsOfATableOrUnknown) {
  EXPECT_EQ(interconnect_bandwidth("GenuineIntel", 6, 143), Figure({22, Source::kTable}));
  EXPECT_EQ(interconnect_bandwidth("AuthenticAMD", 25, 17), Figure({16, Source::kTable}));
  EXPECT_FALSE(interconnect_bandwidth("", -1, -1).known());
}

TEST(Discover, ProcessorsOfATree) {
  const Tree tree;
  tree.processors();
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertex(*found, "made").cpus.list(), "0-7");
  EXPECT_EQ(vertex(*found, "made").cores, 4);
  EXPECT_EQ(vertex(*found, "made/package1").model, "Made CPU");
  EXPECT_EQ(vertex(*found, "made/numa1").cpus.list(), "2-3,6-7");
  EXPECT_EQ(vertex(*found, "made/numa1").cores, 2);
  EXPECT_EQ(vertex(*found, "made/numa0").memory, uint64_t{1} << 30);
  EXPECT_EQ(vertex(*found, "made/l3-0").memory, uint64_t{32} << 20);
  EXPECT_EQ(full_name(*found, vertex(*found, "made/l3-1").parent), "made/numa1");
  ASSERT_EQ(found->edges.size(), 1U);
  EXPECT_EQ(found->edges[0].bandwidth, Figure({22, Source::kTable}));
  EXPECT_EQ(found->edges[0].text, "distance 21");
}

TEST(Discover, OnlyProcessorsThatWeMayUse) {
  const Tree tree;
  tree.processors();
  tree.write("/proc/self/status", "Cpus_allowed_list:\t1,5");
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertex(*found, "made").cpus.list(), "1,5");
  EXPECT_EQ(vertex(*found, "made").cores, 1);
  EXPECT_EQ(find_vertex(*found, "made/package1"), -1);
  EXPECT_TRUE(vertex(*found, "made/numa1").cpus.empty());  // its devices and memory remain
}

TEST(Discover, DevicesOfATree) {
  const Tree tree;
  tree.processors();
  tree.devices();
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertices_of(*found, VertexKind::kGpu).size(), 1U);
  EXPECT_EQ(vertices_of(*found, VertexKind::kPciSwitch).size(), 1U);
  EXPECT_EQ(path_class(*found, "made/gpu0", "made/mlx5_0"), "PIX");
  EXPECT_EQ(path_class(*found, "made/gpu0", "made/numa1"), "PHB");
  std::map<std::string, std::string> texts;
  for (const Edge& edge : found->edges) texts[full_name(*found, edge.from)] = edge.text;
  EXPECT_EQ(texts["made/gpu0"], "x16 16 GT/s");
  EXPECT_EQ(texts["made/mlx5_0"], "x16 8 GT/s");            // as its downstream port
  EXPECT_EQ(texts["made/pci-0000:01:00.0"], "x8 16 GT/s");  // as the root port
  EXPECT_EQ(vertex(*found, "made/mlx5_0:1").rate, Figure({25, Source::kHardware}));
  EXPECT_EQ(vertex(*found, "made/mlx5_0:1").interface, "ib0");
  EXPECT_FALSE(vertex(*found, "made/mlx5_0:2").rate.known());
  EXPECT_EQ(vertex(*found, "made/mlx5_0:2").state, "DOWN");
  // The speed that virtio does not know is nobody's 10 Gb/s.
  EXPECT_EQ(vertex(*found, "made/eth0:1").rate, (Figure{std::nullopt, Source::kHardware}));
  EXPECT_EQ(full_name(*found, vertex(*found, "made/eth0").parent), "made");
}

// A virtual machine with a GPU, as one was seen: all devices on the root complex, at no NUMA
// domain, a NIC whose speed nobody says, and a kernel that puts memory to use when it is wanted.
TEST(Discover, AFlatVirtualMachine) {
  const Tree tree;
  tree.write("/proc/sys/kernel/hostname", "made");
  tree.write("/proc/meminfo", "MemTotal:       131981020 kB\nMemFree:        130695712 kB");
  tree.write("/sys/devices/system/cpu/online", "0-15");
  tree.write("/sys/devices/system/node/node0/cpulist", "0-15");
  tree.write("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        4681200 kB");
  tree.pci("0000:00:03.0", "0x020000", "0x1af4", "-1", "", "");
  tree.pci("0000:00:06.0", "0x030200", "0x10de", "-1", "32.0 GT/s PCIe", "16");
  const std::string virtio = "/sys/devices/pci0000:00/0000:00:03.0/virtio0";
  tree.interface(virtio + "/net/eth0", "eth0", "1", "-1", "up");
  tree.link(virtio + "/net/eth0/device", virtio);
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertex(*found, "made/numa0").memory, uint64_t{131981020} << 10);
  EXPECT_EQ(full_name(*found, vertex(*found, "made/gpu0").parent), "made");
  EXPECT_EQ(path_class(*found, "made/gpu0", "made/eth0"), "PHB");
  ASSERT_EQ(found->edges.size(), 1U);
  EXPECT_EQ(found->edges[0].text, "x16 32 GT/s");
  // Which of two has it, nobody says.
  tree.write("/sys/devices/system/node/node1/cpulist", "");
  tree.write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:        1024 kB");
  const auto two = discover(tree.sys(), nullptr);
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_EQ(vertex(*two, "made/numa0").memory, uint64_t{4681200} << 10);
}

TEST(Discover, PortsThatAreUpHaveARate) {
  for (const auto& [state, up] :
       {std::pair("2: INIT", false), std::pair("3: ARMED", false), std::pair("4: ACTIVE", true),
        std::pair("5: ACTIVE_DEFER", true)}) {
    const Tree tree;
    tree.processors();
    tree.devices();
    tree.write(
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/infiniband/"
        "mlx5_0/ports/2/state",
        state);
    const auto found = discover(tree.sys(), nullptr);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(vertex(*found, "made/mlx5_0:2").rate.known(), up) << state;
  }
}

TEST(Discover, InterfacesOfAContainer) {
  const Tree tree;
  tree.processors();
  tree.interface("/sys/devices/virtual/net/lo", "lo", "772", "", "unknown");
  tree.interface("/sys/devices/virtual/net/ifb0", "ifb0", "1", "-1", "down");
  tree.interface("/sys/devices/virtual/net/eth0", "eth0", "1", "10000", "up");
  tree.write("/sys/devices/virtual/net/eth0/iflink", "17");
  tree.interface("/sys/devices/virtual/net/veth1", "veth1", "1", "10000", "up");
  tree.write("/sys/devices/virtual/net/veth1/iflink", "18");
  tree.link("/sys/devices/virtual/net/veth1/master", "/sys/devices/virtual/net/br0");
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertices_of(*found, VertexKind::kNic).size(), 1U);
  EXPECT_EQ(vertex(*found, "made/eth0:1").rate, Figure({1.25, Source::kHardware}));
}

TEST(Discover, AnEmptyOrHostileTreeIsASmallNode) {
  const Tree empty;
  const auto nothing = discover(empty.root());
  ASSERT_TRUE(nothing.ok()) << nothing.status().message();
  EXPECT_EQ(nothing->vertices.size(), 2U);
  const auto missing = discover(empty.root() + "/nowhere");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("BANYAN_SYSROOT"));
  const Tree hostile;
  hostile.write("/proc/sys/kernel/hostname", std::string(5000, '/') + "\x01");
  hostile.write("/sys/devices/system/cpu/online", "0-99999999");
  hostile.write("/sys/devices/system/node/node0/cpulist", "-5");
  hostile.write("/sys/devices/system/node/node0/distance", "10 x 10");
  hostile.write("/sys/devices/system/node/node99999999999/cpulist", "0");
  hostile.pci("0000:00:01.0", "0x030200", "zz", "99", "inf GT/s", "-3");
  hostile.link("/sys/class/net/out", "/sys/devices/x");
  hostile.write("/sys/devices/x/type", "1");
  fs::create_directory_symlink("/proc/self", fs::path(hostile.root()) / "sys/devices/x/device");
  ASSERT_EQ(::mkfifo((hostile.root() + "/sys/devices/x/speed").c_str(), 0600), 0);
  const auto found = discover(hostile.root());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(check(*found).ok());
  EXPECT_EQ(vertices_of(*found, VertexKind::kNic).size(), 0U);
  EXPECT_EQ(vertices_of(*found, VertexKind::kGpu).size(), 1U);
}

// GPUs that the fake library has; functions have no state but this.
struct FakeGpu {
  std::string bus_id;
  int mig = 0;                         // partitions; each second place is free
  std::vector<std::string> nvlinks{};  // the bus id at the other end; empty: inactive
  unsigned version = 4;                // NVLink 3
};
struct FakeNvml {
  std::vector<FakeGpu> gpus;
  int init = kNvmlSuccess;
  int pci = kNvmlSuccess;
  int calls_open = 0;
};
FakeNvml fake;  // of the test that runs

FakeGpu* fake_of(void* device) {
  return static_cast<FakeGpu*>(device);
}

template <size_t Size>
void put(char (&target)[Size], const std::string& text) {
  std::memset(target, 'x', Size);  // no end, where the text is as long as that
  std::memcpy(target, text.c_str(), std::min(Size, text.size() + 1));
}

NvmlFunctions fake_functions() {
  NvmlFunctions f;
  f.init = [] { return fake.calls_open += fake.init == 0, fake.init; };
  f.shutdown = [] { return --fake.calls_open, kNvmlSuccess; };
  f.device_count = [](unsigned* count) {
    *count = static_cast<unsigned>(fake.gpus.size());
    return kNvmlSuccess;
  };
  f.device = [](unsigned index, void** device) {
    *device = &fake.gpus[index];
    return kNvmlSuccess;
  };
  f.pci_info = [](void* device, NvmlPciInfo* info) {
    put(info->bus_id, fake_of(device)->bus_id);
    return fake.pci;
  };
  f.name = [](void*, char* text, unsigned bytes) {
    std::strncpy(text, "Made GPU", bytes);
    return kNvmlSuccess;
  };
  f.uuid = f.name;
  f.memory = [](void*, NvmlMemory* memory) {
    memory->total = 80ULL << 30;
    return kNvmlSuccess;
  };
  f.pcie_generation = [](void*, unsigned* value) { return *value = 4, kNvmlSuccess; };
  f.pcie_width = [](void*, unsigned* value) { return *value = 16, kNvmlSuccess; };
  f.mig_mode = [](void* device, unsigned* current, unsigned* pending) {
    *current = *pending = fake_of(device)->mig > 0 ? 1 : 0;
    return kNvmlSuccess;
  };
  f.mig_count = [](void*, unsigned* count) { return *count = 7, kNvmlSuccess; };
  f.mig_device = [](void* device, unsigned index, void** part) {
    *part = device;
    return static_cast<int>(index) < 2 * fake_of(device)->mig && index % 2 == 0 ? kNvmlSuccess : 6;
  };
  f.link_state = [](void* device, unsigned nvlink, int* active) {
    const auto& nvlinks = fake_of(device)->nvlinks;
    *active = nvlink < nvlinks.size() && !nvlinks[nvlink].empty() ? 1 : 0;
    return nvlink < nvlinks.size() ? kNvmlSuccess : 2;
  };
  f.link_version = [](void* device, unsigned, unsigned* version) {
    return *version = fake_of(device)->version, kNvmlSuccess;
  };
  f.link_remote = [](void* device, unsigned nvlink, NvmlPciInfo* info) {
    put(info->bus_id, fake_of(device)->nvlinks[nvlink]);
    return kNvmlSuccess;
  };
  f.link_remote_type = [](void*, unsigned, int* type) { return *type = 1, kNvmlSuccess; };
  return f;
}

TEST(NvmlGpus, JoinThoseOfPci) {
  const Tree tree;
  tree.processors();
  tree.devices();
  fake = {.gpus = {{.bus_id = "00000000:03:00.0", .mig = 2}, {.bus_id = "00000000:81:00.0"}}};
  const NvmlFunctions functions = fake_functions();
  const auto found = discover(tree.sys(), &functions);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(fake.calls_open, 0);
  EXPECT_EQ(vertex(*found, "made/gpu0").model, "Made GPU");
  EXPECT_EQ(vertex(*found, "made/gpu0").memory, uint64_t{80} << 30);
  EXPECT_EQ(full_name(*found, vertex(*found, "made/gpu0").parent), "made/pci-0000:01:00.0");
  EXPECT_EQ(full_name(*found, vertex(*found, "made/gpu1").parent), "made");  // /sys masked it
  EXPECT_EQ(vertices_of(*found, VertexKind::kPartition).size(), 2U);
  EXPECT_EQ(full_name(*found, vertex(*found, "made/gpu0.mig2").parent), "made/gpu0");
  // A width is sysfs's where it has one, else NVML's.
  int widths = 0;
  for (const Edge& edge : found->edges)
    widths += full_name(*found, edge.from).starts_with("made/gpu") ? 1 : 0;
  EXPECT_EQ(widths, 2);
}

TEST(NvmlGpus, EdgesBetweenGpusAndToSwitches) {
  const Tree tree;
  const std::string a = "00000000:01:00.0", b = "00000000:02:00.0", s = "00000000:61:00.0";
  fake = {
      .gpus = {{.bus_id = a, .nvlinks = {b, b, "", s, s}}, {.bus_id = b, .nvlinks = {a, a, s}}}};
  const NvmlFunctions functions = fake_functions();
  const auto found = discover(tree.sys(), &functions);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertices_of(*found, VertexKind::kNvSwitch).size(), 1U);
  std::map<std::string, std::pair<double, std::string>> edges;
  for (const Edge& edge : found->edges)
    if (edge.kind == EdgeKind::kNvlink)
      edges[full_name(*found, edge.from) + " " + full_name(*found, edge.to)] = {
          *edge.bandwidth.value, edge.text};
  ASSERT_EQ(edges.size(), 3U);
  EXPECT_EQ(edges["node/gpu0 node/gpu1"], std::pair(50.0, std::string("2 x NVLink 3")));
  EXPECT_EQ(edges["node/gpu0 node/nvswitch-0000:61:00.0"].first, 50);
  EXPECT_EQ(edges["node/gpu1 node/nvswitch-0000:61:00.0"].first, 25);
  EXPECT_EQ(path_class(*found, "node/gpu0", "node/gpu1"), "NVL");
  fake.gpus[0].version = fake.gpus[1].version = 99;  // of a later generation
  const auto later = discover(tree.sys(), &functions);
  ASSERT_TRUE(later.ok()) << later.status().message();
  for (const Edge& edge : later->edges)
    EXPECT_NE(edge.kind == EdgeKind::kNvlink, edge.bandwidth.known());
}

TEST(NvmlGpus, WhatFailsOrIsMissingTakesNothingElseWithIt) {
  const Tree tree;
  tree.processors();
  tree.devices();
  fake = {.gpus = {{.bus_id = "00000000:03:00.0", .mig = 1, .nvlinks = {"00000000:03:00.0"}}}};
  NvmlFunctions functions = fake_functions();
  const auto count = [&] {
    const auto found = discover(tree.sys(), &functions);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return vertices_of(*found, VertexKind::kGpu).size();
  };
  fake.init = 999;
  EXPECT_EQ(count(), 1U);
  fake.init = 0;
  fake.pci = 999;
  EXPECT_EQ(count(), 1U);
  fake.pci = 0;
  fake.gpus[0].bus_id = "nonsense without an end ........................";
  EXPECT_EQ(count(), 1U);
  fake.gpus[0].bus_id = "00000000:03:00.0";
  NvmlFunctions least;
  least.init = functions.init;
  least.shutdown = functions.shutdown;
  least.device_count = functions.device_count;
  least.device = functions.device;
  least.pci_info = functions.pci_info;
  functions = least;
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(fake.calls_open, 0);
}

TEST(DiscoverHost, IsOneNodeAndQuick) {
  double least_ms = 1e9;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto found = discover("/");
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    least_ms = std::min(least_ms, took.count());
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(vertices_of(*found, VertexKind::kNode).size(), 1U);
    EXPECT_GE(found->vertices[1].cpus.count(), 1);
  }
  std::fprintf(stderr, "discovery of this host: %.2f ms\n", least_ms);
  EXPECT_LT(least_ms, 2000);  // twenty times what it may take, for hosts that do other things, too
}

// Both ways of finding processors find the same.
TEST(DiscoverHost, HwlocAndSysfsAgree) {
  const auto by_hwloc = discover("/");
  ASSERT_TRUE(by_hwloc.ok()) << by_hwloc.status().message();
  const Processors by_sysfs = read_processors(SysRoot());
  if (by_sysfs.packages.empty() || by_sysfs.numas.empty())
    GTEST_SKIP() << "this host's /sys does not describe its processors";
  EXPECT_EQ(by_hwloc->vertices[1].cpus, by_sysfs.allowed);
  EXPECT_EQ(vertices_of(*by_hwloc, VertexKind::kNuma).size(), by_sysfs.numas.size());
  int cores = 0;
  for (CpuSet core : by_sysfs.cores) {
    core &= by_sysfs.allowed;
    cores += core.empty() ? 0 : 1;
  }
  EXPECT_EQ(by_hwloc->vertices[1].cores, cores);
}

}  // namespace
}  // namespace banyan::discover_test
