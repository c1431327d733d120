// SPDX-License-Identifier: Apache-2.0

#include "src/base/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "src/base/markup.h"
#include "src/base/parse.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

// These are the widths of the characters from the blank to '~', in hundredths of the font's size
// and rounded up: those of DejaVu Sans, which is about as wide as Verdana and wider than Arial.
constexpr std::array<uint8_t, 95> kPlain = {
    32, 41, 46, 84, 64, 95, 78, 28, 39,  39, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 77, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
    61, 79, 70, 64, 62, 74, 69, 99, 69,  62, 69, 39, 34, 39, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84};
constexpr std::array<uint8_t, 95> kBold = {
    35, 46,  53, 84, 70, 101, 88, 31,  46, 46, 53, 84, 38, 42,  38, 37, 70, 70,  70,
    70, 70,  70, 70, 70, 70,  70, 40,  40, 84, 84, 84, 58, 100, 78, 77, 74, 83,  69,
    69, 83,  84, 38, 38, 78,  64, 100, 84, 85, 74, 85, 77, 72,  69, 82, 78, 111, 78,
    73, 73,  46, 37, 46, 84,  50, 50,  68, 72, 60, 72, 68, 44,  72, 72, 35, 35,  67,
    35, 105, 72, 69, 72, 72,  50, 60,  48, 72, 66, 93, 65, 66,  59, 72, 37, 72,  84};
constexpr int kForeign = 110;

bool continues(char letter) {
  return (static_cast<unsigned char>(letter) & 0xc0U) == 0x80U;
}

bool is_plain(std::string_view words) {
  return std::all_of(words.begin(), words.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

int hundredths(std::string_view words, bool bold) {
  const auto& widths = bold ? kBold : kPlain;
  int sum = 0;
  for (const char letter : words) {
    if (continues(letter)) continue;
    const bool known = letter >= ' ' && letter <= '~';
    sum += known ? widths[static_cast<size_t>(letter - ' ')] : kForeign;
  }
  return sum;
}

void write_hint(std::string& svg, std::string_view hint, std::string_view element) {
  if (hint.empty()) {
    svg += "/>\n";
  } else {
    fmt::format_to(Out(svg), "><title>{}</title></{}>\n", escape_markup(hint), element);
  }
}

void write_box(std::string& svg, PictureBox box) {
  fmt::format_to(Out(svg),
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\""
                 " stroke=\"{}\"{}",
                 box.x, box.y, box.width, box.height, box.fill, box.border,
                 box.dashed ? " stroke-dasharray=\"5 3\"" : "");
  write_hint(svg, box.hint, "rect");
  if (!box.several) return;
  box.several = false;
  box.hint.clear();
  box.x += kSecondBorder;
  box.y += kSecondBorder;
  box.width -= 2 * kSecondBorder;
  box.height -= 2 * kSecondBorder;
  write_box(svg, box);
}

void write_line(std::string& svg, const PictureLine& line) {
  svg += "<polyline points=\"";
  std::string_view separator;
  for (const Point& point : line.points) {
    fmt::format_to(Out(svg), "{}{},{}", separator, point.x, point.y);
    separator = " ";
  }
  fmt::format_to(Out(svg), "\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}{}", line.colour,
                 line.width, line.dashed ? " stroke-dasharray=\"5 3\"" : "",
                 line.arrow ? " marker-end=\"url(#head)\"" : "");
  write_hint(svg, line.hint, "polyline");
}

void write_text(std::string& svg, const PictureText& text) {
  constexpr std::array<std::string_view, 3> kAnchors = {"", " text-anchor=\"middle\"",
                                                        " text-anchor=\"end\""};
  fmt::format_to(Out(svg), "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}{}", text.x,
                 text.y, text.size, text.colour, text.bold ? " font-weight=\"bold\"" : "",
                 kAnchors[static_cast<size_t>(text.align)]);
  // Whatever letters those are, the text is as wide as was reckoned.
  if (!is_plain(text.words))
    fmt::format_to(Out(svg), " textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"",
                   text_width(text.words, text.size, text.bold));
  fmt::format_to(Out(svg), ">{}</text>\n", escape_markup(text.words));
}

}  // namespace

void place(Picture& whole, const Picture& part, int x, int y) {
  for (PictureBox box : part.boxes) {
    box.x += x;
    box.y += y;
    whole.boxes.push_back(std::move(box));
  }
  for (PictureLine line : part.lines) {
    for (Point& point : line.points) point = {point.x + x, point.y + y};
    whole.lines.push_back(std::move(line));
  }
  for (PictureText text : part.texts) {
    text.x += x;
    text.y += y;
    whole.texts.push_back(std::move(text));
  }
}

std::string to_svg(const Picture& picture) {
  const auto arrow = std::find_if(picture.lines.begin(), picture.lines.end(),
                                  [](const PictureLine& line) { return line.arrow; });
  const std::string head =
      arrow == picture.lines.end()
          ? std::string()
          : fmt::format(
                "<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\""
                " markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\""
                " orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{}\"/></marker>",
                arrow->colour);
  std::string svg = svg_begin(picture.width, picture.height, "text{font-family:sans-serif}", head);
  for (const PictureBox& box : picture.boxes) write_box(svg, box);
  for (const PictureLine& line : picture.lines) write_line(svg, line);
  for (const PictureText& text : picture.texts) write_text(svg, text);
  return svg + "</svg>\n";
}

int text_width(std::string_view words, int size, bool bold) {
  return (hundredths(words, bold) * size + 99) / 100;
}

std::string shortened(std::string_view words, int width, int size, bool bold) {
  if (text_width(words, size, bold) <= width) return std::string(words);
  constexpr std::string_view kDots = "...";
  size_t end = words.size();
  while (end > 0) {
    --end;
    if (continues(words[end])) continue;
    std::string text = fmt::format("{}{}", words.substr(0, end), kDots);
    if (text_width(text, size, bold) <= width) return text;
  }
  return {};
}

std::vector<std::string> wrapped(std::string_view words, int width, int size, bool bold) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string_view word : split(words, ' ')) {
    std::string longer = line.empty() ? std::string(word) : fmt::format("{} {}", line, word);
    if (!line.empty() && text_width(longer, size, bold) > width) {
      lines.push_back(std::move(line));
      longer = word;
    }
    line = shortened(longer, width, size, bold);
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace banyan
