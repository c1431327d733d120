// Says how two devices of a machine or cluster reach each other: the class of the best path, by the
// names that nvidia-smi and NCCL have made known, and its bandwidth.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace banyan {

// Nearest first.
enum class PathClass : uint8_t {
  kLoc,  // the same device, or processors and what contains them
  kNvl,  // NVLink, NVLink-C2C or xGMI, direct or through NVSwitches
  kPix,  // one PCI switch
  kPxb,  // several PCI switches, and no processor
  kPhb,  // the processor: root complex of one NUMA domain
  kSys,  // the edge between NUMA domains; also where nobody says which domain a device is at
  kNet,  // the network
};
std::string_view name_of(PathClass type);  // "PIX"

struct Path {
  PathClass type = PathClass::kLoc;
  // Holds the GB/s each direction of the narrowest part; unknown where that of any part is. What
  // carries no figure (the inside of a processor) does not limit it.
  Figure bandwidth;
};

// Answers for one topology, which must outlive it. Thread-safe once made.
class Paths {
 public:
  explicit Paths(const Topology& topology);

  // Takes vertices within nodes: processors, devices, partitions (as their GPU), ports (as their
  // NIC). A path over the network leaves and enters by nearest_nic(); asking for one takes time
  // linear in the edges of the network.
  Path between(int from, int to) const;
  // Finds the NIC of the same node with the best path; -1: the node has none. Where several are
  // equally near to as many GPUs, the k-th of these GPUs gets the k-th of them.
  int nearest_nic(int vertex) const;
  // Every GPU of a node with its nearest NIC, in order; none where the node has no NIC.
  std::vector<std::pair<int, int>> nics_of_gpus(int node) const;
  // All of the node with the path from the vertex, nearest first, then by bandwidth, then in order.
  std::vector<int> nics_by_distance(int vertex) const;
  // Whether it has a port that is up, or none that anybody knows of.
  bool nic_is_up(int nic) const;
  // Gives the GB/s each direction that a NIC carries while all NICs of its node do: its best port,
  // or its PCI link where that is known and narrower.
  //
  // Functions of one device, as the ports of a card are, have one PCI link: each gets what the
  // others leave, and an equal part at least. Those that are not up or whose rate is not known take
  // none. `from_memory`: the links of PCI switches above limit it, too.
  //
  // Where no port's rate is known it is unknown. hwloc's files do not say the rates of ports for
  // RDMA: where no function of a device has a known one, these have the PCI link's, doubtful.
  Figure share_of(int nic, bool from_memory) const;

 private:
  struct Half {
    int peer;
    Figure bandwidth;
  };
  struct Functions {
    int count = 0;
    double rates = 0;  // of all
  };
  using Adjacency = std::unordered_map<int, std::vector<Half>>;

  int device_of(int vertex) const;
  std::vector<int> within(int node, VertexKind kind) const;
  std::vector<int> by_distance(int device, std::span<const int> nics) const;
  std::vector<int> equally_near(int device, std::span<const int> of) const;
  int numa_of(int vertex) const;
  bool in_processor(int vertex) const;
  std::vector<int> trail_up(int vertex) const;
  Figure up(int vertex) const;
  Path inside(int from, int to) const;
  bool by_nvlink(int from, int to, Figure* bandwidth) const;
  bool through_nvswitches(int from, int to, Figure* bandwidth) const;
  Figure between_numas(int from, int to) const;
  std::pair<int, std::string> device_key(int nic) const;
  bool is_silent(int nic) const;
  Figure rate_of(int nic) const;
  Figure behind_switches(int nic, Figure rate) const;
  Figure rate_from(int vertex, int nic) const;
  Path across(int from, int to) const;
  Figure fabric(int from_nic, int to_nic) const;
  std::vector<int> plugs_of(int nic) const;

  const Topology& topology_;
  std::vector<std::vector<int>> children_;
  std::unordered_map<int, Figure> up_;  // of devices and PCI switches: the edge to the parent
  Adjacency nvlink_;
  Adjacency interconnect_;
  Adjacency network_;
  std::map<std::pair<int, std::string>, Functions> functions_;  // of a NIC, with a rate
  std::set<int> by_pci_link_;  // NICs that are taken for as fast as their PCI links
};

}  // namespace banyan
