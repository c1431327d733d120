// A topology is a machine, or a cluster of them, as a value: vertices that contain each other and
// edges between them, where every figure says where it came from. Files and what is printed call
// edges links.
//
//   cluster
//   +- switch ...                         of the network: leaves, spines, as the edges say
//   +- node
//      +- package +- NUMA +- L3 cache     an L3 may hold NUMA domains instead
//         +- PCI switch +- GPU +- partition (MIG)
//                       +- NIC +- port    linked by cables with switches
//                       +- NVSwitch
//
// A device hangs below the PCI switch that it is in, else below its NUMA domain (of its root port),
// else, where nobody says which that is, below the node. Root ports and the downstream ports of PCI
// switches are no vertices: each is the upper end of an edge, as in NCCL's trees.
//
// It has no references to anything: copies are independent, and reading them is thread-safe. A
// topology from a file or from discovery has passed check(), and every function that takes one
// relies on that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "topology/cpu_set.h"

namespace banyan {

// Where a figure came from, best first.
enum class Source : uint8_t {
  kMeasured,  // by us, on this machine
  kHardware,  // the device, its driver or the firmware says so
  kTable,     // of such parts in general, by model or generation
  kAssumed,   // by a person, or by us for want of anything better
};
inline constexpr int kSourceCount = 4;

// A number and who says so. Without a value: unknown, and `source` says who was asked.
struct Figure {
  std::optional<double> value;
  Source source = Source::kAssumed;
  // The figure was read off something that need not be the most: a PCI link that may have been
  // idle, or no port that says its rate. It is never set in a Topology, but in what follows from
  // one.
  bool doubtful = false;

  bool known() const { return value.has_value(); }
  friend bool operator==(const Figure&, const Figure&) = default;
};
// The smaller; unknown where either is, and from the less reliable source of the two.
Figure least(const Figure& a, const Figure& b);
// Both together; unknown and from whom as for least(), doubtful if one of them is.
Figure sum(const Figure& a, const Figure& b);

enum class VertexKind : uint8_t {
  kCluster,
  kSwitch,  // of the network
  kNode,
  kPackage,
  kNuma,
  kCache,  // L3
  kPciSwitch,
  kNvSwitch,
  kGpu,
  kPartition,  // of a GPU: MIG
  kNic,
  kPort,
};
inline constexpr int kVertexKindCount = 12;

// One of the addresses of a port for RDMA.
struct Gid {
  int index = 0;             // in the table of the port
  std::string gid{};         // "fe80:0000:0000:0000:0c42:a1ff:fe03:0001"
  std::string type{};        // "IB/RoCE v1", "RoCE v2"
  std::string interface {};  // RoCE: the network interface that has this address

  friend bool operator==(const Gid&, const Gid&) = default;
};

struct Vertex {
  VertexKind kind = VertexKind::kCluster;
  std::string name{};  // unique among all of its node; of nodes and switches unique among those
  int parent = -1;     // a vertex; -1 for the cluster only

  // What each kind has; empty, 0 or -1: does not apply or is not known.
  CpuSet cpus{};  // node, package, NUMA, cache: the logical processors that we may use
  int cores = 0;  // node, package, NUMA, cache: how many cores those are on; 0: not known
  // Numbers the vertex within its kind.
  //
  //   NUMA       the system's
  //   GPU        NVML's, which is the same in all processes; where no GPU of the node has one,
  //              CUDA's in the process that asked, whose order and choice are that process's
  //              (CUDA_VISIBLE_DEVICES)
  //   partition  NVML's
  //   port       its number
  int index = -1;
  std::string bus_id{};      // what hangs on PCI: "0000:0c:00.0"; some imported files invent them
  std::string vendor{};      // a name where one is known, else "0x15b3"
  std::string model{};       // of the processor, the GPU, the NIC
  uint64_t memory = 0;       // NUMA, GPU, partition: bytes; cache: its size
  int capability = 0;        // GPU: CUDA's, 10 times major and minor: 90
  std::string guid{};        // switch, NIC, port: of the fabric; GPU, partition: UUID
  std::string driver{};      // NIC: "mlx5_core"
  std::string interface {};  // port: the network interface, "ens1f0"
  std::string link_layer{};  // port: "InfiniBand", "Ethernet"
  std::string state{};       // port: "ACTIVE", "DOWN", "up", "lowerlayerdown"
  std::string width{};       // port: lanes and their speed: "4X NDR"
  std::vector<Gid> gids{};   // port: those that are set, ascending by index
  Figure rate{};             // port: GB/s each direction

  friend bool operator==(const Vertex&, const Vertex&) = default;
};

enum class EdgeKind : uint8_t {
  kMemory,           // processors of a NUMA domain - its memory; from == to
  kCpuInterconnect,  // NUMA - NUMA: UPI, Infinity Fabric
  kPcie,             // device or PCI switch - its parent
  kNvlink,           // GPU - GPU, NVSwitch or NUMA
  kXgmi,             // GPU - GPU
  kC2c,              // GPU - NUMA: NVLink-C2C
  kShm,              // processes of a node through memory, as measured; from == to, the node
  kNetwork,          // port, NIC or node - switch; switch - switch
};
inline constexpr int kEdgeKindCount = 8;

// Goes both ways. Several cables between the same two vertices are several edges.
struct Edge {
  int from = -1;
  int to = -1;
  EdgeKind kind = EdgeKind::kPcie;
  Figure bandwidth{};  // GB/s (10^9 bytes a second) each direction
  Figure latency{};    // us, one way
  std::string text{};  // width and generation: "x16 16 GT/s", "12 x NVLink 3", "4xNDR"

  friend bool operator==(const Edge&, const Edge&) = default;
};

struct Topology {
  std::vector<Vertex> vertices;  // [0] is the cluster, also of one node
  std::vector<Edge> edges;

  friend bool operator==(const Topology&, const Topology&) = default;
};

inline const Vertex& vertex_at(const Topology& topology, int vertex) {
  return topology.vertices[static_cast<size_t>(vertex)];
}

inline constexpr double kMbitPerGbyte = 8000;  // rates of files are in Mb/s

// What hostile or mistaken descriptions end at: 65,536 GPUs with all that belongs to them fit.
inline constexpr size_t kMostVertices = size_t{1} << 21;
inline constexpr size_t kMostEdges = size_t{1} << 22;
inline constexpr size_t kMostNameBytes = 256;  // of any text
inline constexpr size_t kMostDepth = 64;       // vertices within each other
inline constexpr size_t kMostGids = 256;       // of a port
inline constexpr double kMostFigure = 1e9;     // GB/s or us: sums over all edges stay finite

std::string_view name_of(Source source);    // "measured"
std::string_view name_of(VertexKind kind);  // "pci_switch"
std::string_view name_of(EdgeKind kind);    // "cpu_interconnect"
Result<Source> parse_source(std::string_view text);
Result<EdgeKind> parse_edge_kind(std::string_view text);

// Just the cluster.
Topology empty_topology(std::string name = "cluster");
// A GUID, UUID or GID as it is; empty for one that is all zeros and so nobody's, as EFA's.
std::string set_id(std::string text);
// The index of the new vertex.
int add_vertex(Topology& topology, Vertex vertex);

// What breaks a rule of this page, and its index where it is one vertex or one edge.
struct TopologyFault {
  Status status{};
  int vertex = -1;
  int edge = -1;
};
// Gives a status that is ok, or kInvalidArgument, which names the vertex or edge and what is wrong:
// its parent, its place, a name that is empty or taken, a text that is too long, not printable or
// not UTF-8, a figure that is negative or not finite.
TopologyFault find_fault(const Topology& topology);
Status check(const Topology& topology);
// Gives the same topology with vertices in one order: cluster, switches, then node by node, in each
// kind by kind, ports and partitions by what they are parts of. Equals and edges stay in their
// order. The forms of a topology are compared and stored in this.
Topology canonical(const Topology& topology);

// Makes names and other texts from outside such that check() takes them: nothing unprintable, no
// bytes that are not UTF-8, nothing too long; no name with '/', empty or twice ("eth0", "eth0.2").
void make_texts_valid(Topology& topology);

// All of a kind, ascending.
std::vector<int> vertices_of(const Topology& topology, VertexKind kind);
std::vector<std::vector<int>> children_of(const Topology& topology);
// Whether a port carries data; where nobody says, as in most files, it does.
bool is_up(const Vertex& port);
// The vertex itself or the nearest above it of that kind; -1: none.
int ancestor(const Topology& topology, int vertex, VertexKind kind);
// "NODE/NAME" of what is in a node, NAME of the rest.
std::string full_name(const Topology& topology, int vertex);
// The vertex of that full name; -1: none. Linear in the number of vertices.
int find_vertex(const Topology& topology, std::string_view full_name);

}  // namespace banyan
