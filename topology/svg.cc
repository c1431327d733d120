// A topology as a drawing: boxes within boxes. A box is as large as its words and what is in it,
// and what is in it stands in rows of about a square. Lines join what is linked outside the tree.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "src/base/markup.h"
#include "topology/compose.h"
#include "topology/describe.h"
#include "topology/print.h"

namespace banyan {

namespace {

constexpr int kPadding = 8;
constexpr int kGap = 10;
constexpr int kLine = 13;
constexpr int kLetter = 6;  // at least as wide as one at the font size of 9
constexpr int kMostLetters = 48;

using Out = std::back_insert_iterator<std::string>;

struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  std::vector<std::string> words{};
};

std::string_view colour_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::kCluster: return "#ffffff";
    case VertexKind::kSwitch: return "#d9d2e9";
    case VertexKind::kNode: return "#f7f7f7";
    case VertexKind::kPackage: return "#eeeeee";
    case VertexKind::kNuma: return "#fff2cc";
    case VertexKind::kCache: return "#fce5cd";
    case VertexKind::kPciSwitch: return "#e6eef8";
    case VertexKind::kNvSwitch: return "#c9e7c0";
    case VertexKind::kGpu: return "#d9ead3";
    case VertexKind::kPartition: return "#f0f8ec";
    case VertexKind::kNic: return "#cfe2f3";
    case VertexKind::kPort: return "#e8f1fa";
  }
  return "#ffffff";
}

class Drawing {
 public:
  explicit Drawing(const Topology& topology)
      : topology_(topology),
        links_(sort_links(topology)),
        children_(children_of(topology)),
        boxes_(topology.vertices.size()) {
    // Parents first, so that the other way round is children first.
    order_ = {0};
    for (size_t i = 0; i < order_.size(); ++i)
      for (const int child : children_[static_cast<size_t>(order_[i])]) order_.push_back(child);
    for (auto vertex = order_.rbegin(); vertex != order_.rend(); ++vertex) measure(*vertex);
    at(0).x = at(0).y = kGap;
    for (const int vertex : order_) place(vertex);
  }

  std::string draw() {
    std::string svg = svg_begin(at(0).width + 2 * kGap, at(0).height + 2 * kGap,
                                "text{font:9px monospace} .name{font-weight:bold}"
                                " g rect{stroke:#666666} line{stroke:#cc4125;stroke-opacity:0.5}"
                                " .network{stroke:#1155cc}");
    for (const int vertex : order_) draw_box(svg, vertex);
    for (const int index : links_.beside)
      draw_link(svg, topology_.links[static_cast<size_t>(index)]);
    return svg + "</svg>\n";
  }

 private:
  Box& at(int vertex) { return boxes_[static_cast<size_t>(vertex)]; }

  void write_words(int vertex) {
    const Vertex& each = topology_.vertices[static_cast<size_t>(vertex)];
    std::vector<std::string>& words = at(vertex).words;
    words = facts_of(each);
    if (const int up = links_.up[static_cast<size_t>(vertex)]; up >= 0)
      words.push_back(text_of(topology_.links[static_cast<size_t>(up)]));
    words.insert(words.begin(), each.name);
    for (std::string& word : words)
      if (word.size() > kMostLetters) word = word.substr(0, kMostLetters - 3) + "...";
  }

  static int words_height(const Box& box) {
    return 2 * kPadding + static_cast<int>(box.words.size()) * kLine;
  }

  // How many children stand beside each other.
  size_t columns(int vertex) const {
    const size_t count = children_[static_cast<size_t>(vertex)].size();
    return std::max<size_t>(
        1, static_cast<size_t>(std::ceil(std::sqrt(1.5 * static_cast<double>(count)))));
  }

  // Rows of children: calls what(child, x, y) and returns the size of all together.
  template <typename What>
  std::pair<int, int> rows(int vertex, const What& what) {
    int x = 0, y = 0, tallest = 0, widest = 0;
    size_t column = 0;
    for (const int child : children_[static_cast<size_t>(vertex)]) {
      if (column == columns(vertex)) {
        y += tallest + kGap;
        x = tallest = 0;
        column = 0;
      }
      what(child, x, y);
      x += at(child).width + kGap;
      tallest = std::max(tallest, at(child).height);
      widest = std::max(widest, x);
      ++column;
    }
    return {widest, y + tallest + kGap};
  }

  void measure(int vertex) {
    write_words(vertex);
    Box& box = at(vertex);
    size_t longest = 0;
    for (const std::string& word : box.words) longest = std::max(longest, word.size());
    box.width = 2 * kPadding + static_cast<int>(longest) * kLetter;
    box.height = words_height(box);
    if (children_[static_cast<size_t>(vertex)].empty()) return;
    const auto [width, height] = rows(vertex, [](int, int, int) {});
    box.width = std::max(box.width, width + kGap);
    box.height += height;
  }

  void place(int vertex) {
    const Box& box = at(vertex);
    rows(vertex, [&](int child, int x, int y) {
      at(child).x = box.x + kGap + x;
      at(child).y = box.y + words_height(box) + y;
    });
  }

  void draw_box(std::string& svg, int vertex) {
    const Box& box = at(vertex);
    fmt::format_to(Out(svg),
                   "<g><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\"/>",
                   box.x, box.y, box.width, box.height,
                   colour_of(topology_.vertices[static_cast<size_t>(vertex)].kind));
    int y = box.y + kPadding;
    std::string_view style = " class=\"name\"";
    for (const std::string& word : box.words) {
      y += kLine;
      fmt::format_to(Out(svg), "<text{} x=\"{}\" y=\"{}\">{}</text>", std::exchange(style, ""),
                     box.x + kPadding, y - 3, escape_markup(word));
    }
    svg += "</g>\n";
  }

  void draw_link(std::string& svg, const Link& link) {
    if (link.from == link.to) return;
    const Box& from = at(link.from);
    const Box& to = at(link.to);
    fmt::format_to(Out(svg),
                   "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"><title>{} - {}: {}"
                   "</title></line>\n",
                   name_of(link.kind), from.x + from.width / 2, from.y + from.height / 2,
                   to.x + to.width / 2, to.y + to.height / 2,
                   escape_markup(full_name(topology_, link.from)),
                   escape_markup(full_name(topology_, link.to)), escape_markup(text_of(link)));
  }

  const Topology& topology_;
  const SortedLinks links_;
  const std::vector<std::vector<int>> children_;
  std::vector<int> order_;
  std::vector<Box> boxes_;
};

}  // namespace

std::string to_svg(const Topology& topology) {
  const Topology shown = folded(topology);
  return Drawing(shown).draw();
}

}  // namespace banyan
