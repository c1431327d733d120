// A drawing is a value here: boxes, lines and texts with their places, which become SVG.
//
// Texts are measured with the widths of a wide font, so that those of narrower ones, which a reader
// may have instead, fit the same boxes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct Point {
  int x = 0;
  int y = 0;
};

// Colours are literals, "#rrggbb". A hint is shown where a pointer rests; empty: none.
struct PictureBox {
  int x = 0, y = 0, width = 0, height = 0;
  std::string_view fill = "#ffffff";
  std::string_view border = "#555555";
  bool dashed = false;
  bool several = false;  // has a second border within the first, kSecondBorder away
  std::string hint{};
};
inline constexpr int kSecondBorder = 3;

struct PictureLine {
  std::vector<Point> points{};
  std::string_view colour = "#555555";
  int width = 1;
  bool dashed = false;
  bool arrow = false;  // at its last point; arrows have one colour
  std::string hint{};
};

enum class Align : uint8_t { kLeft, kMiddle, kRight };

struct PictureText {
  int x = 0, y = 0;  // on the line that letters stand on
  std::string words{};
  int size = 11;
  bool bold = false;
  Align align = Align::kLeft;
  std::string_view colour = "#222222";
};

struct Picture {
  int width = 0, height = 0;
  std::vector<PictureBox> boxes{};  // what is within another comes after it
  std::vector<PictureLine> lines{};
  std::vector<PictureText> texts{};
};

// All of a part, moved by (x, y); the size of the whole stays as it is.
void place(Picture& whole, const Picture& part, int x, int y);
// On white. Words and hints are escaped.
std::string to_svg(const Picture& picture);

// At most so many pixels wide. Letters beyond ASCII count as wide ones.
int text_width(std::string_view words, int size, bool bold = false);
// The words, or as many of their letters as fit and "...".
std::string shortened(std::string_view words, int width, int size, bool bold = false);
// Lines of words, which only blanks separate; what is longer than a line by itself is shortened.
std::vector<std::string> wrapped(std::string_view words, int width, int size, bool bold = false);

}  // namespace banyan
