// Sketches as pictures: boxes within boxes, whose edges hang from lines above them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/picture.h"
#include "topology/formats/sketch.h"

namespace banyan {

inline constexpr int kTextSize = 11;
inline constexpr int kSmallSize = 10;
inline constexpr int kPadding = 8;  // within a box

struct Colours {
  std::string_view fill;
  std::string_view border;
};
Colours colours_of(VertexKind kind);
std::string_view colour_of(EdgeKind kind);

// What hangs from a line: a picture whose first box is all of it.
struct Hung {
  Picture drawn{};
  std::string label{};  // at its edge to the line; the same at all is written once
  bool above = true;    // whether there is such an edge
  bool below = false;   // whether there is one to the line below
};
struct Lines {
  std::string_view above = "#555555";
  std::string_view below = "#555555";
  std::string what{};  // of the edges above, before their label
  bool wide = false;   // what they hang from is as wide as they all are
};
// In rows of at most that width, if each is not wider.
Picture hang(std::vector<Hung> items, const Lines& lines, int most_width);

// A box with a heading in which a picture is; `copies` have a double border.
struct HeadedBox {
  Colours colours{};
  std::string name{};
  std::vector<std::string> facts{};  // each whole on a line where it can be
  std::string hint{};
  bool several = false;
  bool dashed = false;
  int least_width = 0;
};
Picture boxed(const HeadedBox& box, const Picture& content, int most_width);
// Makes its first box that large.
void stretch(Picture& picture, int width, int height);

Picture draw_node(const Topology& topology, const NodeSketch& sketch, int most_width);
Picture draw_network(const Topology& topology, const NetworkSite& site, int most_width);

}  // namespace banyan
