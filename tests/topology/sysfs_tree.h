// A host made to order, as files below a folder: what discovery reads in tests.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/topology/sys_tree.h"
#include "topology/paths.h"
#include "topology/topology.h"

namespace banyan::test {

// Two packages of two cores with two threads, a NUMA domain and an L3 each.
class Tree : public SysTree {
 public:
  void processors() const {
    write("/proc/sys/kernel/hostname", "made");
    write("/proc/cpuinfo",
          "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : Made CPU");
    write("/sys/devices/system/cpu/online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const int package = cpu / 2 % 2;
      const int core = cpu % 4;
      const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}", cpu);
      write(folder + "/topology/physical_package_id", fmt::format("{}", package));
      write(folder + "/topology/thread_siblings_list", fmt::format("{},{}", core, core + 4));
      write(folder + "/cache/index3/level", "3");
      write(folder + "/cache/index3/size", "32768K");
      write(folder + "/cache/index3/shared_cpu_list", package == 0 ? "0-1,4-5" : "2-3,6-7");
    }
    for (int numa = 0; numa < 2; ++numa) {
      const std::string folder = fmt::format("/sys/devices/system/node/node{}", numa);
      write(folder + "/cpulist", numa == 0 ? "0-1,4-5" : "2-3,6-7");
      write(folder + "/meminfo", fmt::format("Node {} MemTotal:       1048576 kB", numa));
      write(folder + "/distance", numa == 0 ? "10 21" : "21 10");
    }
  }

  // `path` is the chain below /sys/devices, as the kernel has it; the last is the device.
  void pci(const std::string& path, const std::string& class_code, const std::string& vendor,
           const std::string& numa, const std::string& speed, const std::string& width) const {
    const std::string device = "/sys/devices/pci0000:00/" + path;
    write(device + "/class", class_code);
    write(device + "/vendor", vendor);
    write(device + "/numa_node", numa);
    if (!speed.empty()) write(device + "/max_link_speed", speed);
    if (!width.empty()) write(device + "/max_link_width", width);
    link("/sys/bus/pci/devices/" + path.substr(path.rfind('/') + 1), device);
  }

  // Root port, upstream port, two downstream ports; a GPU and a NIC.
  void devices() const {
    const std::string sw = "0000:00:01.0/0000:01:00.0";
    pci("0000:00:01.0", "0x060400", "0x8086", "1", "16.0 GT/s PCIe", "8");
    pci(sw, "0x060400", "0x1000", "1", "16.0 GT/s PCIe", "16");
    pci(sw + "/0000:02:00.0", "0x060400", "0x1000", "1", "16.0 GT/s PCIe", "16");
    pci(sw + "/0000:02:01.0", "0x060400", "0x1000", "1", "8.0 GT/s PCIe", "16");
    pci(sw + "/0000:02:00.0/0000:03:00.0", "0x030200", "0x10de", "1", "16.0 GT/s PCIe", "16");
    pci(sw + "/0000:02:01.0/0000:04:00.0", "0x020700", "0x15b3", "1", "16.0 GT/s PCIe", "16");
    pci("0000:00:05.0", "0x030000", "0x1a03", "0", "", "");  // a management controller's screen
    pci("0000:00:06.0", "0x020000", "0x1af4", "-1", "", "");
    const std::string nic = "/sys/devices/pci0000:00/" + sw + "/0000:02:01.0/0000:04:00.0";
    write(nic + "/infiniband/mlx5_0/node_guid", "0c42:a103:0000:0001");
    const std::string rdma = nic + "/infiniband/mlx5_0";
    for (const auto& [port, state, rate] : {std::tuple("1", "4: ACTIVE", "200 Gb/sec (4X HDR)"),
                                            std::tuple("2", "1: DOWN", "10 Gb/sec (4X SDR)")}) {
      write(fmt::format("{}/ports/{}/state", rdma, port), state);
      write(fmt::format("{}/ports/{}/rate", rdma, port), rate);
      write(fmt::format("{}/ports/{}/link_layer", rdma, port), "InfiniBand");
      write(fmt::format("{}/ports/{}/gids/0", rdma, port), "fe80:0:0:0:0:0:0:1");
    }
    link(rdma + "/device", nic);
    link("/sys/class/infiniband/mlx5_0", rdma);
    interface(nic + "/net/ib0", "ib0", "32", "-1", "up");
    link(nic + "/net/ib0/device", nic);
    const std::string virtio = "/sys/devices/pci0000:00/0000:00:06.0/virtio2";
    interface(virtio + "/net/eth0", "eth0", "1", "-1", "up");
    link(virtio + "/net/eth0/device", virtio);
  }

  void interface(const std::string& path, const std::string& name, const std::string& type,
                 const std::string& speed, const std::string& state) const {
    write(path + "/type", type);
    write(path + "/speed", speed);
    write(path + "/operstate", state);
    write(path + "/ifindex", "2");
    write(path + "/iflink", "2");
    link("/sys/class/net/" + name, path);
  }
};

inline const Vertex& vertex(const Topology& topology, const char* name) {
  const int found = find_vertex(topology, name);
  EXPECT_GE(found, 0) << name;
  return topology.vertices[static_cast<size_t>(found < 0 ? 0 : found)];
}

inline std::string path_class(const Topology& topology, const char* from, const char* to) {
  return std::string(name_of(
      Paths(topology).between(find_vertex(topology, from), find_vertex(topology, to)).type));
}

}  // namespace banyan::test
