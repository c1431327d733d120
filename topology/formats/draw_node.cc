// A node: what joins its processors above, these with their devices, what joins its GPUs below.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "topology/describe.h"
#include "topology/formats/draw.h"

namespace banyan {

namespace {

constexpr int kLeastDevice = 84;
constexpr int kMostDevice = 150;
constexpr int kCell = 50;
constexpr int kCellHeight = 18;
constexpr int kForLines = 32;  // beside what hangs in rows
constexpr int kLeastBundle = 560;
constexpr int kLeastHolder = 340;  // of those with processors, where several share a row

bool holds_processors(VertexKind kind) {
  return kind == VertexKind::kNode || kind == VertexKind::kPackage || kind == VertexKind::kNuma ||
         kind == VertexKind::kCache;
}

std::string names_of(const Topology& topology, const std::vector<int>& vertices) {
  const std::string range = range_text(topology, vertices, 1);
  return vertices.size() == 1 ? range : fmt::format("{} x {}", vertices.size(), range);
}

// Dark for what is wide.
std::string_view shade(double part) {
  constexpr std::array<std::string_view, 5> kShades = {"#f2f7fb", "#dbe9f4", "#bfd8ec", "#9dc4e2",
                                                       "#78add5"};
  return kShades[std::min<size_t>(4, static_cast<size_t>(part * 4.999))];
}

class NodeDrawing {
 public:
  NodeDrawing(const Topology& topology, const NodeSketch& sketch)
      : topology_(topology), sketch_(sketch), edges_(sort_edges(topology)) {
    for (const Bundle& bundle : sketch.bundles)
      joined_.insert(bundle.ends.begin(), bundle.ends.end());
    measure(sketch.node);
    collect_ways(sketch.node);
  }

  Picture draw(int most_width) {
    const NodePart& node = sketch_.node;
    const int room = most_width - 2 * (kPadding + kSecondBorder);
    Picture content;
    const auto append = [&](const Picture& part) {
      place(content, part, 0, content.height);
      content.width = std::max(content.width, part.width);
      content.height += part.height;
    };
    const Picture parts = draw_parts(node, room, !sketch_.interconnects.empty());
    int width = std::max(parts.width, kLeastBundle);
    for (const auto* bundles : {&sketch_.interconnects, &sketch_.bundles})
      for (const Bundle& bundle : *bundles)
        width = std::max(width, draw_table(bundle).width + 2 * kPadding);
    for (const Bundle& bundle : sketch_.interconnects) append(draw_bundle(bundle, width));
    append(parts);
    for (const Bundle& bundle : sketch_.bundles) {
      append(draw_bundle(bundle, width));
      content.height += 6;
    }
    HeadedBox box{.colours = colours_of(VertexKind::kNode), .name = title(), .facts = node.facts};
    box.several = node.vertices.size() > 1;
    if (same_ways()) box.facts.push_back(ways_.begin()->first + " a link");
    return boxed(box, content, most_width);
  }

 private:
  std::string title() const {
    const NodePart& node = sketch_.node;
    if (node.vertices.size() == 1) return node.name;
    return fmt::format("each of {}: {}", counted(node.vertices.size(), "node"),
                       range_text(topology_, node.vertices, 2));
  }

  // Devices are as wide as the longest of their words, within reason.
  void measure(const NodePart& part) {
    for (const NodePart& each : part.parts) measure(each);
    if (!part.parts.empty() || holds_processors(part.kind)) return;
    device_width_ =
        std::max(device_width_,
                 text_width(names_of(topology_, part.vertices), kTextSize, true) + 2 * kPadding);
    for (const std::string& fact : part.facts)
      device_width_ = std::max(device_width_, text_width(fact, kSmallSize) + 2 * kPadding);
    device_width_ = std::min(device_width_, kMostDevice);
  }

  void collect_ways(const NodePart& part) {
    for (const NodePart& each : part.parts) collect_ways(each);
    if (!part.way_kind.empty()) ++ways_[fmt::format("{}: {}", part.way_kind, short_text(part.way))];
  }

  // Said once, of the node.
  bool same_ways() const { return ways_.size() == 1 && ways_.begin()->second > 1; }

  bool is_joined(const NodePart& part) const {
    return std::any_of(part.vertices.begin(), part.vertices.end(),
                       [&](int vertex) { return joined_.count(vertex) != 0; }) ||
           std::any_of(part.parts.begin(), part.parts.end(),
                       [&](const NodePart& each) { return is_joined(each); });
  }

  // What holds processors stands beside each other where that leaves room.
  static int share_of(const NodePart& holder, int most_width) {
    const auto count =
        std::count_if(holder.parts.begin(), holder.parts.end(),
                      [](const NodePart& part) { return holds_processors(part.kind); });
    if (count == 0) return most_width;
    const auto big = static_cast<int>(count);
    const int rows = (big - 1) / std::max(1, most_width / kLeastHolder) + 1;
    return most_width / ((big - 1) / rows + 1) - kPadding - 2;
  }

  // Those that hold processors, or the others.
  std::vector<Hung> items_of(const NodePart& holder, bool processors, bool joined,
                             int most_width) const {
    std::vector<Hung> items;
    for (const NodePart& part : holder.parts) {
      if (holds_processors(part.kind) != processors) continue;
      Hung item{.drawn = draw_part(part, most_width)};
      item.above = processors ? joined : !part.way_kind.empty();
      if (!part.way_kind.empty() && !same_ways()) item.label = short_text(part.way);
      item.below = holder.kind == VertexKind::kNode && is_joined(part);
      items.push_back(std::move(item));
    }
    return items;
  }

  Lines lines_of(const NodePart& holder, bool processors) const {
    Lines lines;
    lines.above = colour_of(processors ? EdgeKind::kCpuInterconnect : EdgeKind::kPcie);
    lines.wide = processors;
    if (!sketch_.bundles.empty()) lines.below = colour_of(sketch_.bundles.front().kind);
    std::set<std::string> kinds;
    for (const NodePart& part : holder.parts)
      if (!part.way_kind.empty()) kinds.insert(part.way_kind);
    if (!processors && kinds.size() == 1 && !same_ways()) lines.what = *kinds.begin();
    return lines;
  }

  Picture draw_parts(const NodePart& holder, int most_width, bool joined) const {
    const int room = most_width - kForLines;
    std::vector<Hung> items = items_of(holder, true, joined, share_of(holder, room));
    const bool processors = !items.empty();
    std::vector<Hung> devices = items_of(holder, false, joined, room);
    if (holder.left_out > 0)
      devices.push_back({.drawn = boxed({.colours = {"#ffffff", "#999999"},
                                         .name = fmt::format("{} more", holder.left_out),
                                         .dashed = true},
                                        {}, room),
                         .above = false});
    if (!processors) return hang(std::move(devices), lines_of(holder, false), most_width);
    if (!devices.empty()) {
      const bool below = std::any_of(devices.begin(), devices.end(), [](Hung& device) {
        return std::exchange(device.below, false);
      });
      const HeadedBox box{
          .colours = {"#ffffff", "#999999"}, .name = "NUMA domain not known", .dashed = true};
      const Picture inner = hang(std::move(devices), lines_of(holder, false), room - 2 * kPadding);
      items.push_back({.drawn = boxed(box, inner, room), .above = false, .below = below});
    }
    return hang(std::move(items), lines_of(holder, true), most_width);
  }

  Picture draw_part(const NodePart& part, int most_width) const {
    HeadedBox box{.colours = colours_of(part.kind),
                  .name = names_of(topology_, part.vertices),
                  .facts = part.facts};
    if (part.vertices.size() == 1) box.name = part.name;
    box.several = part.vertices.size() > 1;
    box.hint = hint_of(part);
    if (part.parts.empty() && part.left_out == 0 && !holds_processors(part.kind))
      return draw_device(part, box);
    const Picture content = draw_parts(part, most_width - 2 * (kPadding + kSecondBorder), false);
    return boxed(box, content, most_width);
  }

  std::string hint_of(const NodePart& part) const {
    const Vertex& vertex = vertex_at(topology_, part.vertices.front());
    std::string text = full_name(topology_, part.vertices.front());
    for (const std::string& fact : facts_of(vertex)) text += ", " + fact;
    const int up = edges_.up[static_cast<size_t>(part.vertices.front())];
    if (up >= 0) text += ", " + text_of(topology_.edges[static_cast<size_t>(up)]);
    return text;
  }

  // Each fact is a line of its own.
  Picture draw_device(const NodePart& part, const HeadedBox& box) const {
    const int room = device_width_ - 2 * kPadding;
    Picture picture{.width = device_width_};
    Colours colours = box.colours;
    if (part.down) colours.fill = "#f0f0f0";
    picture.boxes.push_back({.fill = colours.fill,
                             .border = colours.border,
                             .dashed = part.down,
                             .several = box.several,
                             .hint = box.hint});
    int y = 16;
    picture.texts.push_back({.x = kPadding,
                             .y = y,
                             .words = shortened(box.name, room, kTextSize, true),
                             .size = kTextSize,
                             .bold = true});
    for (const std::string& fact : part.facts) {
      y += 13;
      picture.texts.push_back(
          {.x = kPadding, .y = y, .words = shortened(fact, room, kSmallSize), .size = kSmallSize});
    }
    y += 8;
    stretch(picture, device_width_, y);
    return picture;
  }

  Picture draw_bundle(const Bundle& bundle, int width) const {
    std::string rest;
    for (size_t i = 1; i < bundle.words.size(); ++i)
      rest += (rest.empty() ? "" : "; ") + bundle.words[i];
    HeadedBox box{.colours = {"#ffffff", colour_of(bundle.kind)},
                  .name = bundle.words.front(),
                  .least_width = width};
    if (!rest.empty()) box.facts.push_back(rest);
    return boxed(box, draw_table(bundle), width);
  }

  Picture draw_table(const Bundle& bundle) const {
    Picture table;
    if (bundle.names.empty()) return table;
    double most = 0;
    for (const auto& row : bundle.table)
      for (const Figure& cell : row) most = std::max(most, cell.value.value_or(0));
    const auto text = [&](std::string_view words, int x, int y, bool bold) {
      table.texts.push_back({.x = x + kCell / 2,
                             .y = y + 13,
                             .words = shortened(words, kCell - 4, kSmallSize, bold),
                             .size = kSmallSize,
                             .bold = bold,
                             .align = Align::kMiddle});
    };
    const auto count = bundle.names.size();
    text("GB/s", 0, 0, false);
    for (size_t i = 0; i < count; ++i) {
      const int place_of = kCell * static_cast<int>(i + 1);
      text(bundle.names[i], place_of, 0, true);
      const int y = kCellHeight * static_cast<int>(i + 1);
      text(bundle.names[i], 0, y, true);
      for (size_t j = 0; j < count; ++j) {
        const int x = kCell * static_cast<int>(j + 1);
        const Figure& cell = bundle.table[i][j];
        const bool linked = !cell.known() || *cell.value > 0;
        table.boxes.push_back({.x = x,
                               .y = y,
                               .width = kCell,
                               .height = kCellHeight,
                               .fill = linked && i != j
                                           ? shade(most > 0 ? cell.value.value_or(0) / most : 0)
                                           : "#ffffff",
                               .border = "#c8c8c8"});
        if (i == j || !linked) continue;
        std::string words = short_text(cell);
        words.resize(words.find(' '));
        text(words, x, y, false);
      }
    }
    table.width = kCell * static_cast<int>(count + 1);
    table.height = kCellHeight * static_cast<int>(count + 1);
    return table;
  }

  const Topology& topology_;
  const NodeSketch& sketch_;
  const SortedEdges edges_;
  std::set<int> joined_;
  std::map<std::string, size_t> ways_;
  int device_width_ = kLeastDevice;
};

}  // namespace

Picture draw_node(const Topology& topology, const NodeSketch& sketch, int most_width) {
  return NodeDrawing(topology, sketch).draw(most_width);
}

}  // namespace banyan
