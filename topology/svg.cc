// A topology as a drawing: a title, the network above the nodes, a node of each kind in detail, and
// what colours and signs mean.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/picture.h"
#include "topology/describe.h"
#include "topology/draw.h"
#include "topology/print.h"
#include "topology/sketch.h"

namespace banyan {

namespace {

constexpr int kMostWidth = 1600;
constexpr int kLeastWidth = 620;
constexpr int kMargin = 20;
constexpr int kTitleSize = 18;
constexpr int kGap = 16;
constexpr size_t kMostDetails = 4;  // kinds of nodes

constexpr std::pair<VertexKind, std::string_view> kBoxes[] = {
    {VertexKind::kSwitch, "network switch"},
    {VertexKind::kNode, "node"},
    {VertexKind::kPackage, "package"},
    {VertexKind::kNuma, "NUMA domain"},
    {VertexKind::kPciSwitch, "PCI switch"},
    {VertexKind::kGpu, "GPU"},
    {VertexKind::kNic, "NIC"}};
constexpr std::pair<LinkKind, std::string_view> kLinks[] = {
    {LinkKind::kPcie, "PCIe"},      {LinkKind::kCpuInterconnect, "between NUMA domains"},
    {LinkKind::kNvlink, "NVLink"},  {LinkKind::kXgmi, "xGMI"},
    {LinkKind::kC2c, "NVLink-C2C"}, {LinkKind::kNetwork, "network"}};

// Entries beside each other, in rows.
class Legend {
 public:
  explicit Legend(int most_width) : most_width_(most_width) {}

  void add_box(const Colours& colours, std::string_view words, bool several, bool dashed) {
    const int x = next(kSwatch + text_width(words, kSmallSize));
    picture_.boxes.push_back({.x = x,
                              .y = y_ + 2,
                              .width = kSwatch - 8,
                              .height = 12,
                              .fill = colours.fill,
                              .edge = colours.edge,
                              .dashed = dashed,
                              .several = several});
    write(x, words);
  }
  void add_line(std::string_view colour, std::string_view words) {
    const int x = next(kSwatch + text_width(words, kSmallSize));
    picture_.lines.push_back(
        {.points = {{x, y_ + 8}, {x + kSwatch - 8, y_ + 8}}, .colour = colour, .width = 2});
    write(x, words);
  }
  void add_sentence(std::string_view words) {
    const int x = next(text_width(words, kSmallSize));
    write(x - kSwatch, words);
  }
  Picture take() {
    picture_.height = y_ + kRow;
    return std::move(picture_);
  }

 private:
  static constexpr int kSwatch = 34;
  static constexpr int kRow = 20;

  int next(int width) {
    if (x_ > 0 && x_ + width > most_width_) {
      x_ = 0;
      y_ += kRow;
    }
    const int x = x_;
    x_ += width + 20;
    picture_.width = std::max(picture_.width, x + width);
    return x;
  }
  void write(int x, std::string_view words) {
    picture_.texts.push_back(
        {.x = x + kSwatch, .y = y_ + 12, .words = std::string(words), .size = kSmallSize});
  }

  int most_width_;
  int x_ = 0, y_ = 0;
  Picture picture_;
};

Picture legend_of(const Picture& drawn, int most_width) {
  Legend legend(most_width);
  const auto any = [&](auto what) {
    return std::any_of(drawn.boxes.begin(), drawn.boxes.end(), what);
  };
  for (const auto& [kind, words] : kBoxes) {
    const Colours colours = colours_of(kind);
    if (any([&](const PictureBox& box) {
          return box.fill == colours.fill && box.edge == colours.edge;
        }))
      legend.add_box(colours, words, false, false);
  }
  for (const auto& [kind, words] : kLinks) {
    const std::string_view colour = colour_of(kind);
    const bool line = std::any_of(drawn.lines.begin(), drawn.lines.end(),
                                  [&](const PictureLine& each) { return each.colour == colour; });
    if (line || any([&](const PictureBox& box) { return box.edge == colour; }))
      legend.add_line(colour, words);
  }
  if (any([](const PictureBox& box) { return box.several; }))
    legend.add_box({"#ffffff", "#555555"}, "several that are alike", true, false);
  if (any([](const PictureBox& box) { return box.dashed; }))
    legend.add_box({"#f0f0f0", "#555555"}, "down, left out or not known", false, true);
  const auto says = [&](std::string_view sign) {
    return std::any_of(drawn.texts.begin(), drawn.texts.end(), [&](const PictureText& text) {
      return text.words.find(sign) != std::string::npos;
    });
  };
  if (says("GB/s")) legend.add_sentence("GB/s: 10^9 bytes a second, each direction");
  if (says("~")) legend.add_sentence("~ by a table or assumed");
  if (says("? GB/s")) legend.add_sentence("? unknown");
  return legend.take();
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
  const int room = kMostWidth - 2 * kMargin;
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
    if (drawn.height > 0) drawn.height += kGap;
    place(drawn, panel, 0, drawn.height);
    drawn.height += panel.height;
  }
  Picture whole{.width = std::max(drawn.width, kLeastWidth) + 2 * kMargin};
  const int inner = whole.width - 2 * kMargin;
  int y = kMargin + kTitleSize;
  for (std::string& line : wrapped(title_of(all), inner, kTitleSize, true)) {
    whole.texts.push_back(
        {.x = kMargin, .y = y, .words = std::move(line), .size = kTitleSize, .bold = true});
    y += kTitleSize + 6;
  }
  if (nodes.size() > kMostDetails) {
    const std::string note =
        fmt::format("Nodes of {} kinds are shown in detail; there are more kinds.", kMostDetails);
    whole.texts.push_back({.x = kMargin, .y = y, .words = note});
    y += kTitleSize;
  }
  place(whole, drawn, kMargin, y);
  y += drawn.height + kGap;
  const Picture legend = legend_of(drawn, inner);
  place(whole, legend, kMargin, y);
  whole.height = y + legend.height + kMargin - 8;
  return to_svg(whole);
}

}  // namespace banyan
