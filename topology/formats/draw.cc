// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/draw.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace banyan {

namespace {

constexpr int kGap = 10;        // between what stands beside each other
constexpr int kLineStep = 14;   // from one line of text to the next
constexpr int kLongFact = 260;  // what a fact may widen a box to
constexpr int kStub = 12;       // from a line to what hangs from it, without a label
constexpr int kLabelled = 20;
constexpr int kBesideLabel = 16;
constexpr int kRail = 16;  // beside rows, for what joins their lines

int width_of(const Hung& item) {
  return item.drawn.width;
}

// How many stand in each row.
std::vector<size_t> rows_of(const std::vector<Hung>& items, int most_width) {
  const auto pack = [&](size_t most) {
    std::vector<size_t> rows;
    int width = 0;
    for (const Hung& item : items) {
      if (rows.empty() || rows.back() == most || width + kGap + width_of(item) > most_width) {
        rows.push_back(0);
        width = -kGap;
      }
      width += kGap + width_of(item);
      ++rows.back();
    }
    return rows;
  };
  std::vector<size_t> first = pack(items.size());
  if (first.size() < 2) return first;
  // As even as so many rows can be.
  std::vector<size_t> even = pack((items.size() + first.size() - 1) / first.size());
  return even.size() == first.size() ? even : first;
}

bool labels_differ(const std::vector<Hung>& items) {
  const Hung* first = nullptr;
  for (const Hung& item : items) {
    if (!item.above) continue;
    if (first != nullptr && item.label != first->label) return true;
    if (first == nullptr) first = &item;
  }
  return false;
}

class Hanger {
 public:
  Hanger(std::vector<Hung> items, const Lines& lines, int most_width)
      : items_(std::move(items)), lines_(lines) {
    const auto any = [&](bool Hung::*what) {
      return std::any_of(items_.begin(), items_.end(),
                         [&](const Hung& item) { return item.*what; });
    };
    any_above_ = any(&Hung::above);
    any_below_ = any(&Hung::below);
    labelled_ = labels_differ(items_);
    // A label stands above its item alone.
    if (labelled_ || lines.wide)
      for (Hung& item : items_)
        stretch(item.drawn,
                std::max(item.drawn.width, kBesideLabel + text_width(item.label, kSmallSize)),
                item.drawn.height);
    rows_ = rows_of(items_, most_width - 2 * kRail);
    straight_ = lines.wide && rows_.size() == 1;
    labelled_ = labelled_ || (straight_ && any_above_ && !items_.front().label.empty());
  }

  Picture draw() {
    heading();
    left_ = any_above_ && rows_.size() > 1 ? kRail : 0;
    size_t first = 0;
    for (size_t row = 0; row < rows_.size(); ++row) {
      draw_row(first, rows_[row], row + 1 == rows_.size());
      first += rows_[row];
    }
    if (any_above_ && !straight_)
      whole_.lines.push_back(
          {.points = {{kRailX, top_}, {kRailX, last_above_}}, .colour = lines_.above});
    if (first_below_ >= 0) {
      const int x = whole_.width + kRail - 4;
      for (PictureLine& line : whole_.lines)
        for (Point& point : line.points)
          if (point.x == kRightEdge) point.x = x;
      whole_.lines.push_back(
          {.points = {{x, first_below_}, {x, y_}}, .colour = lines_.below, .width = 2});
      whole_.width = x + 4;
    }
    whole_.height = y_;
    return std::move(whole_);
  }

 private:
  static constexpr int kRailX = 6;
  static constexpr int kRightEdge = 1 << 28;  // known once all rows are

  // What is the same of all edges.
  void heading() {
    if (!any_above_) return;
    std::string text = lines_.what;
    const auto hung =
        std::find_if(items_.begin(), items_.end(), [](const Hung& i) { return i.above; });
    if (!labelled_ && !hung->label.empty()) {
      const auto edges =
          std::count_if(items_.begin(), items_.end(), [](const Hung& i) { return i.above; });
      text +=
          fmt::format("{}{}{}", text.empty() ? "" : ": ", hung->label, edges > 1 ? " each" : "");
    }
    if (text.empty()) return;
    whole_.texts.push_back(
        {.x = kRailX + 6, .y = kSmallSize, .words = text, .size = kSmallSize, .colour = "#444444"});
    whole_.width = kRailX + 6 + text_width(text, kSmallSize);
    y_ = kLineStep;
  }

  void draw_row(size_t first, size_t count, bool last) {
    const int line = y_ + (straight_ ? 0 : 4);
    const bool above = std::any_of(items_.begin() + static_cast<long>(first),
                                   items_.begin() + static_cast<long>(first + count),
                                   [](const Hung& item) { return item.above; });
    const int top = above ? line + (labelled_ ? kLabelled : kStub) : y_ + 4;
    int tallest = 0;
    for (size_t i = first; i < first + count; ++i)
      tallest = std::max(tallest, items_[i].drawn.height);
    int x = left_;
    int last_stub = -1;
    for (size_t i = first; i < first + count; ++i) {
      Hung& item = items_[i];
      // As tall as what it stands beside, but not a device beside all that another switch holds.
      if (item.below || 2 * item.drawn.height >= tallest)
        stretch(item.drawn, item.drawn.width, tallest);
      place(whole_, item.drawn, x, top);
      if (item.above) last_stub = draw_stub(item, x, line, top);
      x += item.drawn.width + kGap;
    }
    whole_.width = std::max(whole_.width, x - kGap);
    if (above && !straight_) {
      whole_.lines.push_back(
          {.points = {{kRailX, line}, {last_stub, line}}, .colour = lines_.above});
      last_above_ = line;
    }
    y_ = top + tallest;
    draw_below(first, count, last);
  }

  // Its place along the line.
  int draw_stub(const Hung& item, int x, int line, int top) {
    const int at = labelled_ ? x + 12 : x + item.drawn.width / 2;
    whole_.lines.push_back({.points = {{at, line}, {at, top}}, .colour = lines_.above});
    if (labelled_ && !item.label.empty()) {
      const std::string text = shortened(item.label, item.drawn.width - kBesideLabel, kSmallSize);
      whole_.texts.push_back(
          {.x = at + 4, .y = top - 5, .words = text, .size = kSmallSize, .colour = "#444444"});
    }
    return at;
  }

  // Straight down from the last row, from others along a line and down on the right.
  void draw_below(size_t first, size_t count, bool last) {
    if (!any_below_) {
      y_ += last ? 0 : kGap;
      return;
    }
    const int end = y_ + 8;
    int x = left_;
    int first_stub = -1;
    for (size_t i = first; i < first + count; ++i) {
      const Hung& item = items_[i];
      const int at = x + item.drawn.width / 2;
      x += item.drawn.width + kGap;
      if (!item.below) continue;
      whole_.lines.push_back(
          {.points = {{at, y_}, {at, last ? end + 4 : end}}, .colour = lines_.below, .width = 2});
      if (first_stub < 0) first_stub = at;
    }
    if (!last && first_stub >= 0) {
      whole_.lines.push_back(
          {.points = {{first_stub, end}, {kRightEdge, end}}, .colour = lines_.below, .width = 2});
      if (first_below_ < 0) first_below_ = end;
    }
    y_ = end + 4;
  }

  std::vector<Hung> items_;
  const Lines& lines_;
  std::vector<size_t> rows_;
  bool straight_ = false;  // each from its own place of a wide thing above
  bool labelled_ = false, any_above_ = false, any_below_ = false;
  Picture whole_;
  int left_ = 0;
  int top_ = 0;
  int y_ = 0;
  int last_above_ = 0;
  int first_below_ = -1;
};

// As many facts as fit on each line; one that is longer than a line is broken at blanks.
std::vector<std::string> lines_of(const std::vector<std::string>& facts, int width) {
  std::vector<std::string> lines;
  for (const std::string& fact : facts) {
    const std::string longer = lines.empty() ? fact : fmt::format("{}, {}", lines.back(), fact);
    if (!lines.empty() && text_width(longer, kSmallSize) <= width) {
      lines.back() = longer;
      continue;
    }
    for (std::string& line : wrapped(fact, width, kSmallSize)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Colours colours_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::kCluster: return {"#ffffff", "#999999"};
    case VertexKind::kSwitch: return {"#e8e1f2", "#7a5ba6"};
    case VertexKind::kNode: return {"#ffffff", "#444444"};
    case VertexKind::kPackage: return {"#f4f4f2", "#8c8c86"};
    case VertexKind::kNuma: return {"#fdf6e3", "#b8962e"};
    case VertexKind::kCache: return {"#f7ead9", "#b07c3c"};
    case VertexKind::kPciSwitch: return {"#eef1f6", "#7d8ba0"};
    case VertexKind::kNvSwitch: return {"#dcefe6", "#00775a"};
    case VertexKind::kGpu: return {"#d3ead6", "#3d8b57"};
    case VertexKind::kPartition: return {"#e6f3e8", "#3d8b57"};
    case VertexKind::kNic: return {"#d6e6f5", "#3a76a8"};
    case VertexKind::kPort: return {"#e8f1fa", "#3a76a8"};
  }
  return {};
}

std::string_view colour_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kMemory:
    case EdgeKind::kShm: return "#555555";
    case EdgeKind::kCpuInterconnect: return "#b8860b";
    case EdgeKind::kPcie: return "#6b7a90";
    case EdgeKind::kNvlink: return "#00775a";
    case EdgeKind::kXgmi: return "#c8500a";
    case EdgeKind::kC2c: return "#a8508c";
    case EdgeKind::kNetwork: return "#0a68a8";
  }
  return {};
}

Picture hang(std::vector<Hung> items, const Lines& lines, int most_width) {
  if (items.empty()) return {};
  return Hanger(std::move(items), lines, most_width).draw();
}

void stretch(Picture& picture, int width, int height) {
  picture.width = width;
  picture.height = height;
  picture.boxes.front().width = width;
  picture.boxes.front().height = height;
}

Picture boxed(const HeadedBox& box, const Picture& content, int most_width) {
  const int padding = kPadding + (box.several ? kSecondBorder : 0);
  const int room = most_width - 2 * padding;
  int longest = 0;
  for (const std::string& fact : box.facts)
    longest = std::max(longest, text_width(fact, kSmallSize));
  const int heading = std::max(text_width(box.name, kTextSize, true), std::min(longest, kLongFact));
  const int inner =
      std::max(content.width, std::min(room, std::max(heading, box.least_width - 2 * padding)));
  Picture picture;
  picture.width = inner + 2 * padding;
  int y = padding - 4;
  const auto write = [&](std::string words, int size, bool bold) {
    y += kLineStep;
    picture.texts.push_back(
        {.x = padding, .y = y, .words = std::move(words), .size = size, .bold = bold});
  };
  picture.boxes.push_back({.fill = box.colours.fill,
                           .border = box.colours.border,
                           .dashed = box.dashed,
                           .several = box.several,
                           .hint = box.hint});
  for (std::string& line : wrapped(box.name, inner, kTextSize, true))
    write(std::move(line), kTextSize, true);
  for (std::string& line : lines_of(box.facts, inner)) write(std::move(line), kSmallSize, false);
  y += content.height > 0 ? 6 : 4;
  if (content.height > 0) {
    place(picture, content, padding, y);
    y += content.height;
  }
  stretch(picture, picture.width, y + padding - 2);
  return picture;
}

}  // namespace banyan
