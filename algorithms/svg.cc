// A schedule as a drawing: a column for each rank, time downwards.
//
// A step stands below everything that it waits for, on its own rank or as a message from another,
// so every line points down. Our own writer: a few rectangles and lines need no library.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <vector>

#include "algorithms/messages.h"
#include "algorithms/print.h"
#include "algorithms/step_text.h"
#include "src/base/markup.h"

namespace banyan {

namespace {

constexpr int kBoxHeight = 34;
constexpr int kGap = 12;        // between the boxes of one row
constexpr int kRowGap = 26;     // between rows
constexpr int kColumnGap = 60;  // room for the lines of messages
constexpr int kMargin = 20;
constexpr int kHeading = 40;
constexpr int kPadding = 6;  // beside the text of a box
constexpr int kLetter = 7;   // at least as wide as one at the font size of 10
constexpr int kStub = 18;    // of a message to a rank that is not drawn

struct Point {
  int x;
  int y;
};

struct Layout {
  std::vector<std::vector<Point>> boxes;  // left upper corners, per schedule and step
  int box_width = 0;
  int width = 0;
  int height = 0;
};

int column(size_t schedule, int box_width) {
  return kMargin + static_cast<int>(schedule) * (box_width + kColumnGap);
}

// As wide as the longest text needs.
int box_width_of(std::span<const Schedule> schedules) {
  size_t longest = 20;  // "rank 7: no steps" in its larger letters
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      const StepText words = text_of(step);
      longest = std::max({longest, words.what.size() + 8, words.where.size()});  // 8: the number
    }
  }
  return 2 * kPadding + static_cast<int>(longest) * kLetter;
}

// The steps of one depth share a row; a rank that has several there stacks them.
Layout arrange(std::span<const Schedule> schedules, std::span<const Message> messages) {
  const auto depths = depths_of(schedules, messages, {.dependency = 1, .message = 1});
  std::vector<int> stacked;  // per row: the most boxes of one rank
  std::vector<std::vector<int>> place(schedules.size());
  for (size_t i = 0; i < schedules.size(); ++i) {
    std::vector<int> used;
    for (const uint32_t depth : depths[i]) {
      used.resize(std::max<size_t>(used.size(), depth + size_t{1}));
      place[i].push_back(used[depth]++);
    }
    stacked.resize(std::max(stacked.size(), used.size()));
    for (size_t row = 0; row < used.size(); ++row) stacked[row] = std::max(stacked[row], used[row]);
  }
  std::vector<int> top;
  int y = kMargin + kHeading;
  for (const int boxes : stacked) {
    top.push_back(y);
    y += boxes * (kBoxHeight + kGap) - kGap + kRowGap;
  }
  Layout layout;
  layout.box_width = box_width_of(schedules);
  for (size_t i = 0; i < schedules.size(); ++i) {
    auto& boxes = layout.boxes.emplace_back();
    for (size_t step = 0; step < depths[i].size(); ++step)
      boxes.push_back({column(i, layout.box_width),
                       top[depths[i][step]] + place[i][step] * (kBoxHeight + kGap)});
  }
  layout.width =
      std::max(column(schedules.size(), layout.box_width) - kColumnGap + kMargin, 2 * kMargin);
  layout.height = y + kMargin;
  return layout;
}

std::string_view colour_of(Op op) {
  switch (op) {
    case Op::kSend: return "#cfe2f3";
    case Op::kRecv: return "#d9ead3";
    case Op::kRecvReduce:
    case Op::kRecvDecodeAdd: return "#c9e7c0";
    case Op::kReduce:
    case Op::kDecodeAdd: return "#fce5cd";
    case Op::kEncode:
    case Op::kDecode: return "#ead1dc";
    case Op::kCopy: return "#eeeeee";
  }
  return "#ffffff";
}

void line(std::string& svg, std::string_view kind, Point from, Point to) {
  fmt::format_to(std::back_inserter(svg),
                 "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", kind, from.x,
                 from.y, to.x, to.y);
}

void box(std::string& svg, uint32_t number, const Step& step, Point at, int width) {
  const StepText words = text_of(step);
  fmt::format_to(std::back_inserter(svg),
                 "<g><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>"
                 "<text x=\"{}\" y=\"{}\">s{}: {}</text><text x=\"{}\" y=\"{}\">{}</text></g>\n",
                 at.x, at.y, width, kBoxHeight, colour_of(step.op), at.x + kPadding, at.y + 14,
                 number, escape_markup(words.what), at.x + kPadding, at.y + 27,
                 escape_markup(words.where));
}

// A message leaves and enters at the sides, so that it does not cross the boxes of its column.
void messages_between(std::string& svg, const Layout& layout, std::span<const Message> messages) {
  for (const auto& [from, to] : messages) {
    const Point tail = layout.boxes[from.schedule][from.step];
    const Point head = layout.boxes[to.schedule][to.step];
    const bool right = tail.x <= head.x;
    line(svg, "message", {tail.x + (right ? layout.box_width : 0), tail.y + kBoxHeight / 2},
         {head.x + (right ? 0 : layout.box_width), head.y + kBoxHeight / 2});
  }
}

// Sends and receives whose other end is on a rank that is not drawn.
void messages_elsewhere(std::string& svg, const Layout& layout, std::span<const Schedule> schedules,
                        std::span<const Message> messages) {
  std::vector<std::vector<bool>> matched;
  for (const Schedule& schedule : schedules) matched.emplace_back(schedule.steps.size(), false);
  for (const auto& [from, to] : messages) {
    matched[from.schedule][from.step] = true;
    matched[to.schedule][to.step] = true;
  }
  for (size_t i = 0; i < schedules.size(); ++i) {
    for (size_t step = 0; step < schedules[i].steps.size(); ++step) {
      const Step& each = schedules[i].steps[step];
      if (each.peer < 0 || matched[i][step]) continue;
      const Point at = layout.boxes[i][step];
      const Point left{at.x - kStub, at.y + kBoxHeight / 2};
      const Point right{at.x + layout.box_width + kStub, at.y + kBoxHeight / 2};
      if (each.op == Op::kSend) {
        line(svg, "message", {at.x + layout.box_width, right.y}, right);
      } else {
        line(svg, "message", left, {at.x, left.y});
      }
    }
  }
}

}  // namespace

std::string to_svg(std::span<const Schedule> schedules, std::span<const int> ranks) {
  assert(schedules.size() == ranks.size());
  const std::vector<Message> messages = match_messages(schedules, ranks);
  const Layout layout = arrange(schedules, messages);
  std::string svg = svg_begin(
      layout.width, layout.height,
      "text{font:10px monospace} .rank{font-size:14px;font-weight:bold}"
      " g rect{stroke:#444444} line{stroke:#999999}"
      " .message{stroke:#1155cc;stroke-dasharray:5 3;marker-end:url(#head)}",
      "<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\""
      " markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#1155cc\"/></marker>");
  for (size_t i = 0; i < schedules.size(); ++i) {
    fmt::format_to(std::back_inserter(svg),
                   "<text class=\"rank\" x=\"{}\" y=\"{}\">rank {}{}</text>\n",
                   column(i, layout.box_width), kMargin + 14, ranks[i],
                   schedules[i].steps.empty() ? ": no steps" : "");
    // Before the boxes, so that lines past other boxes stay behind them.
    for (uint32_t step = 0; step < schedules[i].steps.size(); ++step)
      for (const uint32_t next : schedules[i].successors_of(step))
        line(svg, "dependency",
             {layout.boxes[i][step].x + layout.box_width / 2, layout.boxes[i][step].y + kBoxHeight},
             {layout.boxes[i][next].x + layout.box_width / 2, layout.boxes[i][next].y});
  }
  for (size_t i = 0; i < schedules.size(); ++i)
    for (uint32_t step = 0; step < schedules[i].steps.size(); ++step)
      box(svg, step, schedules[i].steps[step], layout.boxes[i][step], layout.box_width);
  messages_between(svg, layout, messages);
  messages_elsewhere(svg, layout, schedules, messages);
  svg += "</svg>\n";
  return svg;
}

}  // namespace banyan
