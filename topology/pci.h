// Devices on PCI are listed by whoever finds them, and become vertices.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace banyan {

enum class PciUse : uint8_t { kOther, kBridge, kGpu, kNic, kNvSwitch };

// Judges by class (0x030200) and vendor. Adapters for a screen (of management controllers, of
// virtual machines) are no GPUs.
PciUse pci_use(uint32_t class_code, uint32_t vendor);
// "NVIDIA"; "0x15b3" of vendors without a name here; empty for 0.
std::string pci_vendor_name(uint32_t vendor);
// The number of such a name; 0: not known.
uint32_t pci_vendor_number(std::string_view name);
// "0x15b3", "15b3": what Linux and NCCL write of classes, vendors and devices. 0 where it is none.
uint32_t hexadecimal(std::string_view text);
// "0000:0C:00.0", "c:00.0", "00000000:0C:00.0" (NVML's): "0000:0c:00.0". Empty where it is none.
std::string normal_bus_id(std::string_view text);
// Gives the GB/s of that many lanes at "16.0 GT/s PCIe", less the coding of the generation; unknown
// where either is. `source` goes into the figure.
Figure pcie_bandwidth(std::string_view speed, int lanes, Source source);
// "x16 16 GT/s"; empty where either is unknown.
std::string pcie_text(std::string_view speed, int lanes);

// What the system writes of a PCI link: "16.0 GT/s PCIe" and 16.
struct PcieLink {
  std::string speed{};
  int lanes = 0;  // 0: not known
};
// The text of a PCI link that was read while it may have been trained down: it can do that at
// least.
inline constexpr std::string_view kCurrentLink = "current";
// Reads a text of pcie_text(). Where there is none, or kCurrentLink, it is the widest link of a
// generation that has exactly that bandwidth. What was measured is that of no generation.
PcieLink pcie_link(std::string_view text, const Figure& bandwidth);
// The bandwidth of any edge, doubtful where it is of one that may have been trained down.
Figure bandwidth_of(const Edge& edge);

struct PciFunction {
  std::string bus_id{};
  std::string parent{};  // bus id of the bridge that it is behind; empty: on the root complex
  PciUse use = PciUse::kOther;
  uint32_t vendor = 0;
  int numa = -1;       // the system's number; -1: not known
  Figure edge{};       // this end's
  std::string text{};  // this end's: "x16 16 GT/s"
  std::string name{};  // of a device where one is known; else it gets one by its bus id
  std::string model{};
};

// Adds devices that are GPUs, NICs and NVSwitches, and the PCI switches above them. Every second
// one of a chain of bridges is a switch: the others are the root port and downstream ports. An edge
// is the narrower of its ends. GPUs without a name are numbered in the order of their bus ids.
void add_pci(Topology& topology, int node, const std::vector<PciFunction>& functions);

// The device of that bus id in that node; -1: none.
int find_bus_id(const Topology& topology, int node, std::string_view bus_id);

}  // namespace banyan
