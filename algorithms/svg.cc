// Draws a schedule: a column for each rank, time downwards.
//
// A step stands below everything that it waits for, on its own rank or as a message from another,
// so every line points down. Lines cross only the gaps between rows and, where they pass rows,
// those between columns.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/messages.h"
#include "algorithms/print.h"
#include "algorithms/step_text.h"
#include "src/base/picture_page.h"

namespace banyan {

namespace {

constexpr int kBoxHeight = 34;
constexpr int kHeading = 24;
constexpr int kPadding = 6;  // beside the text of a box
constexpr int kTextSize = 10;
constexpr int kRankSize = 14;
constexpr int kLeastRowGap = 26;  // higher where lines go far sideways, so that they are told apart
constexpr int kMostRowGap = 90;
constexpr int kTrack = 6;        // between lines beside a column
constexpr int kMostTracks = 10;  // beyond, lines share one
constexpr int kBesideBox = 8;    // between tracks and boxes
constexpr int kStub = 18;        // of a message to a rank that is not drawn
constexpr int kAside = 14;       // of a line's end from the middle of its box
constexpr std::string_view kMessage = "#0a68a8";
constexpr std::string_view kDependency = "#9a9a9a";

struct Kind {
  std::string_view words;
  std::string_view fill;
  std::string_view border;
};
constexpr std::array<Kind, 6> kKinds = {{{"send", "#d6e6f5", "#3a76a8"},
                                         {"receive", "#e4efe0", "#5f8a4e"},
                                         {"receive and reduce", "#c5e3c8", "#2f7a48"},
                                         {"reduce", "#fbe6cf", "#b07c3c"},
                                         {"encode or decode", "#eedceb", "#94598a"},
                                         {"copy", "#eeeeee", "#777777"}}};

const Kind& kind_of(Op op) {
  switch (op) {
    case Op::kSend: return kKinds[0];
    case Op::kRecv: return kKinds[1];
    case Op::kRecvReduce:
    case Op::kRecvDecodeAdd: return kKinds[2];
    case Op::kReduce:
    case Op::kFold:
    case Op::kDecodeAdd: return kKinds[3];
    case Op::kEncode:
    case Op::kDecode:
    case Op::kSelect: return kKinds[4];
    case Op::kOffer:
    case Op::kDecide:
    case Op::kDelegate:
    case Op::kWithdraw:
    case Op::kCopy: return kKinds[5];
  }
  return kKinds[5];
}

// From one step to one that waits for it.
struct Arrow {
  StepAt from{};
  StepAt to{};
  bool message = false;
  int track = -1;  // beside the column of `to`, where it passes rows
};

class ScheduleDrawing {
 public:
  ScheduleDrawing(std::span<const Schedule> schedules, std::span<const int> ranks)
      : schedules_(schedules), ranks_(ranks), messages_(match_messages(schedules, ranks)) {
    collect_arrows();
    assign_rows();
    assign_tracks();
    measure();
  }

  Picture draw() {
    for (size_t i = 0; i < schedules_.size(); ++i) {
      picture_.texts.push_back(
          {.x = x_of(i),
           .y = kRankSize,
           .words =
               fmt::format("rank {}{}", ranks_[i], schedules_[i].steps.empty() ? ": no steps" : ""),
           .size = kRankSize,
           .bold = true});
      for (uint32_t step = 0; step < schedules_[i].steps.size(); ++step) draw_step({i, step});
    }
    for (const Arrow& arrow : arrows_) draw_arrow(arrow);
    draw_elsewhere();
    return std::move(picture_);
  }

 private:
  int& row(const StepAt& at) { return rows_[at.schedule][at.step]; }
  const Step& step(const StepAt& at) const { return schedules_[at.schedule].steps[at.step]; }

  void collect_arrows() {
    for (size_t i = 0; i < schedules_.size(); ++i)
      for (uint32_t step = 0; step < schedules_[i].steps.size(); ++step)
        for (const uint32_t next : schedules_[i].successors_of(step))
          arrows_.push_back({{i, step}, {i, next}});
    for (const auto& [from, to] : messages_) arrows_.push_back({from, to, true});
  }

  // Puts one step of a rank in each row, below what it waits for; where no message orders ranks, in
  // the order of the program.
  void assign_rows() {
    const auto depths = depths_of(schedules_, messages_, {.dependency = 1, .message = 1});
    std::vector<std::tuple<uint32_t, size_t, uint32_t>> order;
    for (size_t i = 0; i < schedules_.size(); ++i) {
      rows_.emplace_back(schedules_[i].steps.size(), -1);
      for (uint32_t step = 0; step < depths[i].size(); ++step)
        order.emplace_back(messages_.empty() ? 0 : depths[i][step], i, step);
    }
    std::sort(order.begin(), order.end());
    std::map<std::pair<size_t, uint32_t>, std::vector<StepAt>> before;
    for (const Arrow& arrow : arrows_)
      before[{arrow.to.schedule, arrow.to.step}].push_back(arrow.from);
    std::vector<int> free(schedules_.size(), 0);
    for (const auto& [depth, i, step] : order) {
      int own = free[i];
      for (const StepAt& from : before[{i, step}]) own = std::max(own, row(from) + 1);
      row({i, step}) = own;
      free[i] = own + 1;
      row_count_ = std::max(row_count_, own + 1);
    }
  }

  // Gives lines of a column that pass the same rows tracks of their own, while there are some.
  void assign_tracks() {
    tracks_.assign(schedules_.size(), 0);
    std::map<std::pair<size_t, int>, int> used_until;  // of a column's track: the last row
    for (Arrow& arrow : arrows_) {
      const int first = row(arrow.from) + 1;
      const int last = row(arrow.to) - 1;
      if (first > last && row(arrow.to) > row(arrow.from)) continue;
      int track = 0;
      while (track + 1 < kMostTracks && used_until.count({arrow.to.schedule, track}) != 0 &&
             used_until[{arrow.to.schedule, track}] >= first)
        ++track;
      int& until = used_until[{arrow.to.schedule, track}];
      until = std::max(until, last);
      arrow.track = track;
      tracks_[arrow.to.schedule] = std::max(tracks_[arrow.to.schedule], track + 1);
    }
  }

  void measure() {
    int widest = text_width("rank 1000: no steps", kRankSize, true);
    for (const Schedule& schedule : schedules_) {
      for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
        const StepText words = text_of(schedule.steps[step]);
        widest = std::max({widest, text_width(heading(step, words), kTextSize),
                           text_width(words.where, kTextSize)});
      }
    }
    box_width_ = widest + 2 * kPadding;
    int x = 0;
    for (const int tracks : tracks_) {
      x += std::max(tracks * kTrack + 2 * kBesideBox, 2 * kStub + 4);
      columns_.push_back(x);
      x += box_width_;
    }
    picture_.width = x + kStub + 4;
    std::vector<int> gaps(static_cast<size_t>(row_count_) + 1, kLeastRowGap);
    for (const Arrow& arrow : arrows_) {
      const auto apart = static_cast<int>(std::max(arrow.from.schedule, arrow.to.schedule) -
                                          std::min(arrow.from.schedule, arrow.to.schedule));
      int& gap = gaps[static_cast<size_t>(row(arrow.from)) + 1];
      gap = std::max(gap, std::min(kMostRowGap, kLeastRowGap + 10 * (apart - 1)));
    }
    int y = kHeading;
    for (int row = 0; row < row_count_; ++row) {
      tops_.push_back(y);
      y += kBoxHeight + gaps[static_cast<size_t>(row) + 1];
    }
    picture_.height = row_count_ == 0 ? kHeading : tops_.back() + kBoxHeight + 4;
  }

  static std::string heading(uint32_t step, const StepText& words) {
    return fmt::format("s{}: {}", step, words.what);
  }

  int x_of(size_t schedule) const { return columns_[schedule]; }
  int top_of(const StepAt& at) { return tops_[static_cast<size_t>(row(at))]; }

  void draw_step(const StepAt& at) {
    const Kind& kind = kind_of(step(at).op);
    const StepText words = text_of(step(at));
    const int x = x_of(at.schedule);
    const int y = top_of(at);
    picture_.boxes.push_back({.x = x,
                              .y = y,
                              .width = box_width_,
                              .height = kBoxHeight,
                              .fill = kind.fill,
                              .border = kind.border});
    const auto write = [&](std::string text, int down) {
      picture_.texts.push_back(
          {.x = x + kPadding, .y = y + down, .words = std::move(text), .size = kTextSize});
    };
    write(heading(at.step, words), 14);
    write(words.where, 27);
  }

  // Down through the gap between two rows, or through a track and the gap above its end.
  void draw_arrow(const Arrow& arrow) {
    const int aside = arrow.message ? kAside : -kAside;
    const int middle = box_width_ / 2;
    const Point tail{x_of(arrow.from.schedule) + middle + aside, top_of(arrow.from) + kBoxHeight};
    const Point head{x_of(arrow.to.schedule) + middle + aside, top_of(arrow.to)};
    PictureLine line{.points = {tail},
                     .colour = arrow.message ? kMessage : kDependency,
                     .dashed = arrow.message,
                     .arrow = arrow.message};
    if (arrow.track >= 0) {
      const int x = x_of(arrow.to.schedule) - kBesideBox - arrow.track * kTrack;
      const int below = tail.y + kLeastRowGap / 2 + kTrack;
      const int above = head.y - kLeastRowGap / 2;
      line.points.push_back({x, below});
      line.points.push_back({x, above});
    }
    line.points.push_back(head);
    picture_.lines.push_back(std::move(line));
  }

  // Sends and receives whose other end is on a rank that is not drawn.
  void draw_elsewhere() {
    std::set<std::pair<size_t, uint32_t>> matched;
    for (const auto& [from, to] : messages_) {
      matched.insert({from.schedule, from.step});
      matched.insert({to.schedule, to.step});
    }
    for (size_t i = 0; i < schedules_.size(); ++i) {
      for (uint32_t step = 0; step < schedules_[i].steps.size(); ++step) {
        const Step& each = schedules_[i].steps[step];
        if (each.peer < 0 || matched.count({i, step}) != 0) continue;
        const bool sends = each.op == Op::kSend;
        const int y = top_of({i, step}) + kBoxHeight / 2;
        const int left = sends ? x_of(i) + box_width_ : x_of(i) - kStub;
        picture_.lines.push_back({.points = {{left, y}, {left + kStub, y}},
                                  .colour = kMessage,
                                  .dashed = true,
                                  .arrow = true});
      }
    }
  }

  const std::span<const Schedule> schedules_;
  const std::span<const int> ranks_;
  const std::vector<Message> messages_;
  std::vector<Arrow> arrows_;
  std::vector<std::vector<int>> rows_;
  std::vector<int> tracks_;
  std::vector<int> columns_;  // left edges of boxes
  std::vector<int> tops_;     // of rows
  int row_count_ = 0;
  int box_width_ = 0;
  Picture picture_;
};

}  // namespace

std::string to_svg(std::span<const Schedule> schedules, std::span<const int> ranks,
                   std::string_view title) {
  assert(schedules.size() == ranks.size());
  const Picture drawn = ScheduleDrawing(schedules, ranks).draw();
  std::vector<LegendEntry> legend;
  for (const Kind& kind : kKinds)
    if (std::any_of(drawn.boxes.begin(), drawn.boxes.end(),
                    [&](const PictureBox& box) { return box.fill == kind.fill; }))
      legend.push_back({kind.words, PictureBox{.fill = kind.fill, .border = kind.border}});
  legend.push_back({"message", {}, PictureLine{.colour = kMessage, .dashed = true, .arrow = true}});
  legend.push_back({"waits for the step above", {}, PictureLine{.colour = kDependency}});
  return to_svg(on_page({.title = std::string(title),
                         .note = "Time runs downwards. Steps of one row need not run together.",
                         .legend = legend},
                        drawn));
}

}  // namespace banyan
