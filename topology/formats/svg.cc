// Draws a topology: a title, the network above the nodes, a node of each kind in detail, and what
// colours and signs mean.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/picture_page.h"
#include "topology/describe.h"
#include "topology/formats/draw.h"
#include "topology/formats/print.h"
#include "topology/formats/sketch.h"

namespace banyan {

namespace {

constexpr int kMostWidth = 1600;
constexpr int kDrawingGap = 16;
constexpr size_t kMostDetails = 4;  // kinds of nodes

constexpr std::pair<VertexKind, std::string_view> kBoxes[] = {
    {VertexKind::kSwitch, "network switch"},
    {VertexKind::kNode, "node"},
    {VertexKind::kPackage, "package"},
    {VertexKind::kNuma, "NUMA domain"},
    {VertexKind::kPciSwitch, "PCI switch"},
    {VertexKind::kGpu, "GPU"},
    {VertexKind::kNic, "NIC"}};
constexpr std::pair<EdgeKind, std::string_view> kEdges[] = {
    {EdgeKind::kPcie, "PCIe"},      {EdgeKind::kCpuInterconnect, "between NUMA domains"},
    {EdgeKind::kNvlink, "NVLink"},  {EdgeKind::kXgmi, "xGMI"},
    {EdgeKind::kC2c, "NVLink-C2C"}, {EdgeKind::kNetwork, "network"}};

std::vector<LegendEntry> legend_of(const Picture& drawn) {
  std::vector<LegendEntry> legend;
  const auto any = [&](auto what) {
    return std::any_of(drawn.boxes.begin(), drawn.boxes.end(), what);
  };
  for (const auto& [kind, words] : kBoxes) {
    const Colours colours = colours_of(kind);
    if (any([&](const PictureBox& box) {
          return box.fill == colours.fill && box.border == colours.border;
        }))
      legend.push_back({words, PictureBox{.fill = colours.fill, .border = colours.border}});
  }
  for (const auto& [kind, words] : kEdges) {
    const std::string_view colour = colour_of(kind);
    const bool line = std::any_of(drawn.lines.begin(), drawn.lines.end(),
                                  [&](const PictureLine& each) { return each.colour == colour; });
    if (line || any([&](const PictureBox& box) { return box.border == colour; }))
      legend.push_back({words, {}, PictureLine{.colour = colour, .width = 2}});
  }
  if (any([](const PictureBox& box) { return box.several; }))
    legend.push_back({"several that are alike", PictureBox{.several = true}});
  if (any([](const PictureBox& box) { return box.dashed; }))
    legend.push_back({"down, left out or not known", PictureBox{.dashed = true}});
  const auto says = [&](std::string_view sign) {
    return std::any_of(drawn.texts.begin(), drawn.texts.end(), [&](const PictureText& text) {
      return text.words.find(sign) != std::string::npos;
    });
  };
  if (says("GB/s")) legend.push_back({"GB/s: 10^9 bytes a second, each direction"});
  if (says("~")) legend.push_back({"~ by a table or assumed"});
  if (says("? GB/s")) legend.push_back({"? unknown"});
  return legend;
}

std::string title_of(const Topology& topology) {
  const std::vector<int> nodes = vertices_of(topology, VertexKind::kNode);
  const bool cluster = nodes.size() != 1 || !vertices_of(topology, VertexKind::kSwitch).empty();
  std::string text = topology.vertices[cluster ? 0 : static_cast<size_t>(nodes.front())].name;
  std::string_view separator = ": ";
  for (const auto& [kind, word] :
       {std::pair(VertexKind::kSwitch, "network switch"), std::pair(VertexKind::kNode, "node"),
        std::pair(VertexKind::kGpu, "GPU"), std::pair(VertexKind::kNic, "NIC")}) {
    const size_t count = vertices_of(topology, kind).size();
    if (kind == VertexKind::kNode ? cluster : count > 0)
      text += fmt::format("{}{}", std::exchange(separator, ", "), counted(count, word));
  }
  int processors = 0;
  for (const int node : nodes)
    processors += topology.vertices[static_cast<size_t>(node)].cpus.count();
  if (processors > 0)
    text += fmt::format("{}{}", separator, counted(static_cast<size_t>(processors), "processor"));
  return text;
}

}  // namespace

std::string to_svg(const Topology& topology) {
  const Topology all = canonical(topology);
  const std::vector<int> shapes = shapes_of(all);
  const int room = kMostWidth - 2 * kPageMargin;
  std::vector<Picture> panels;
  if (const auto site = sketch_network(all, shapes))
    panels.push_back(draw_network(all, *site, room));
  const std::vector<int> nodes = nodes_to_show(all, shapes, kMostDetails + 1);
  for (size_t i = 0; i < std::min(nodes.size(), kMostDetails); ++i)
    panels.push_back(draw_node(all, sketch_node(all, shapes, nodes[i]), room));
  Picture drawn;
  for (const Picture& panel : panels) drawn.width = std::max(drawn.width, panel.width);
  for (Picture& panel : panels) {
    stretch(panel, drawn.width, panel.height);
    if (drawn.height > 0) drawn.height += kDrawingGap;
    place(drawn, panel, 0, drawn.height);
    drawn.height += panel.height;
  }
  Page page{.title = title_of(all)};
  if (nodes.size() > kMostDetails)
    page.note = fmt::format("{} kinds of nodes are shown in detail; there are more.", kMostDetails);
  const std::vector<LegendEntry> legend = legend_of(drawn);
  page.legend = legend;
  return to_svg(on_page(page, drawn));
}

}  // namespace banyan
