// A sketch is what a picture of a machine or cluster shows, as a value without places: what is
// alike once with its number, figures where edges are, meshes of edges as one.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace banyan {

// A box of a node: a device, or what holds devices.
struct NodePart {
  VertexKind kind = VertexKind::kNode;
  std::string name{};
  std::vector<std::string> facts{};
  std::vector<int> vertices{};  // those that it stands for; of several the first is drawn
  bool down = false;            // a NIC that has no port that is up
  std::string way_kind{};  // the edge to what holds it: "PCIe x16 32 GT/s"; empty: there is none
  Figure way{};            // GB/s each direction
  std::vector<NodePart> parts{};
  size_t left_out = 0;  // of its parts
};

// Edges of one kind between the devices of a node, in words and, where they differ, as a table.
struct Bundle {
  EdgeKind kind = EdgeKind::kNvlink;
  std::vector<std::string> words{};          // sentences; the first names the kind
  std::vector<int> ends{};                   // the devices that it joins
  std::vector<std::string> names{};          // of rows and columns; empty: no table
  std::vector<std::vector<Figure>> table{};  // known and 0: not linked
};

// A node in detail, or several that are alike.
struct NodeSketch {
  NodePart node{};
  std::vector<Bundle> interconnects{};  // between NUMA domains
  std::vector<Bundle> bundles{};        // of GPUs
};

// A node as a part of the network, or several that are alike.
struct Card {
  std::vector<int> nodes{};
  std::vector<std::string> facts{};  // "8 GPUs"
  std::string cables{};              // "8 x 50 GB/s"; empty: none is known
};

// Switches of one tier of a site: each is of the smallest site that all nodes below it are in.
struct Tier {
  int number = 0;  // 1: leaves; 0: far from every node
  std::vector<int> switches{};
  std::string among{};   // cables between them
  std::string cables{};  // to the tier below within the site
};

// Nodes that switches join, and these switches; or several that are alike.
struct NetworkSite {
  size_t copies = 1;
  size_t nodes = 0;           // of one of them, on all levels below
  std::vector<Tier> tiers{};  // highest first
  std::vector<NetworkSite> sites{};
  std::vector<Card> cards{};
  size_t left_out = 0;   // nodes of sites and cards that are not here
  std::string cables{};  // out of one of them
};

// "8 GPUs", "1 node", "2 switches".
std::string counted(size_t count, std::string_view what);
// "a, b, c"; of more than `most` the first and the last: "node-0 ... node-15".
std::string range_text(const Topology& topology, const std::vector<int>& vertices, size_t most);
// "63 GB/s"; "~22 GB/s" by a table or assumed, "? GB/s" unknown.
std::string short_text(const Figure& figure);
// Vertices have one number where they, and all that is in them, differ in nothing but names, places
// on PCI and ids.
std::vector<int> shapes_of(const Topology& topology);
// A node of each shape that has more in it than NICs, at most `most`.
std::vector<int> nodes_to_show(const Topology& topology, const std::vector<int>& shapes,
                               size_t most);
NodeSketch sketch_node(const Topology& topology, const std::vector<int>& shapes, int node);
// None for one node without switches.
std::optional<NetworkSite> sketch_network(const Topology& topology, const std::vector<int>& shapes);

}  // namespace banyan
