// SPDX-License-Identifier: Apache-2.0

#include "src/base/picture_page.h"

#include <algorithm>
#include <utility>

namespace banyan {

namespace {

constexpr int kLeastWidth = 620;
constexpr int kTitleSize = 18;
constexpr int kNoteSize = 11;
constexpr int kLegendSize = 10;
constexpr int kGap = 16;
constexpr int kRow = 20;
constexpr int kSample = 26;

// Entries beside each other, in rows.
Picture draw_legend(std::span<const LegendEntry> entries, int most_width) {
  Picture picture;
  int x = 0, y = 0;
  for (const LegendEntry& entry : entries) {
    const int sample = entry.box || entry.line ? kSample + 8 : 0;
    const int width = sample + text_width(entry.words, kLegendSize);
    if (x > 0 && x + width > most_width) {
      x = 0;
      y += kRow;
    }
    if (entry.box) {
      PictureBox box = *entry.box;
      box.x = x;
      box.y = y + 2;
      box.width = kSample;
      box.height = 12;
      picture.boxes.push_back(std::move(box));
    }
    if (entry.line) {
      PictureLine line = *entry.line;
      line.points = {{x, y + 8}, {x + kSample, y + 8}};
      picture.lines.push_back(std::move(line));
    }
    picture.texts.push_back(
        {.x = x + sample, .y = y + 12, .words = std::string(entry.words), .size = kLegendSize});
    x += width + 20;
  }
  picture.height = entries.empty() ? 0 : y + kRow;
  return picture;
}

}  // namespace

Picture on_page(const Page& page, const Picture& drawn) {
  Picture whole{.width = std::max(drawn.width, kLeastWidth) + 2 * kPageMargin};
  const int room = whole.width - 2 * kPageMargin;
  int y = kPageMargin;
  const auto write = [&](std::string_view words, int size, bool bold) {
    for (std::string& line : wrapped(words, room, size, bold)) {
      y += size;
      whole.texts.push_back(
          {.x = kPageMargin, .y = y, .words = std::move(line), .size = size, .bold = bold});
      y += 6;
    }
  };
  write(page.title, kTitleSize, true);
  write(page.note, kNoteSize, false);
  y += 8;
  place(whole, drawn, kPageMargin, y);
  y += drawn.height + kGap;
  const Picture legend = draw_legend(page.legend, room);
  place(whole, legend, kPageMargin, y);
  whole.height = y + legend.height + kPageMargin - 8;
  return whole;
}

}  // namespace banyan
