// Texts of pictures: how wide they may be, and what fits.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace banyan::picture_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view kWords = "gpu0, an Accelerator of 80 GiB; \xc3\xa9\xe6\xbc\xa2 <&>";

TEST(PictureTexts, BoldAndForeignLettersAreWide) {
  EXPECT_EQ(text_width("", 10), 0);
  EXPECT_EQ(text_width("W", 10), 10);
  EXPECT_GT(text_width("W", 10, true), 10);
  EXPECT_LT(text_width("iii", 10), text_width("www", 10));
  EXPECT_EQ(text_width("\xe6\xbc\xa2", 10), 11);
  EXPECT_GT(text_width("GB/s", 20), text_width("GB/s", 11));
}

TEST(PictureTexts, ShortenedOnesFit) {
  for (int width = 0; width <= text_width(kWords, 11); ++width) {
    const std::string text = shortened(kWords, width, 11);
    EXPECT_LE(text_width(text, 11), width);
    EXPECT_TRUE(text.empty() || text == kWords || text.ends_with("...")) << text;
  }
  EXPECT_EQ(shortened(kWords, text_width(kWords, 11), 11), kWords);
}

TEST(PictureTexts, WrappedOnesFitAndLoseNothingThatHasRoom) {
  EXPECT_THAT(wrapped("one two  three", 1000, 11), ElementsAre("one two  three"));
  EXPECT_THAT(wrapped("", 100, 11), IsEmpty());
  for (int width = text_width("Accelerator", 11); width < 300; ++width) {
    std::string all;
    for (const std::string& line : wrapped("an Accelerator of 80 GiB", width, 11)) {
      EXPECT_LE(text_width(line, 11), width);
      all += (all.empty() ? "" : " ") + line;
    }
    EXPECT_EQ(all, "an Accelerator of 80 GiB");
  }
}

TEST(Picture, PartsAreMovedAndWordsEscaped) {
  Picture part{.width = 10, .height = 10};
  part.boxes.push_back({.x = 1, .y = 2, .width = 3, .height = 4, .several = true, .hint = "<b>"});
  part.lines.push_back({.points = {{1, 1}, {2, 5}}, .arrow = true});
  part.texts.push_back({.x = 4, .y = 5, .words = "a<b & \xc3\xa9"});
  Picture whole{.width = 100, .height = 50};
  place(whole, part, 10, 20);
  const std::string svg = to_svg(whole);
  EXPECT_THAT(svg, HasSubstr("<rect x=\"11\" y=\"22\" width=\"3\" height=\"4\""));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;b&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("points=\"11,21 12,25\""));
  EXPECT_THAT(svg, HasSubstr(">a&lt;b &amp; \xc3\xa9</text>"));
  EXPECT_THAT(svg, HasSubstr("textLength="));
  EXPECT_THAT(svg, HasSubstr("<marker id=\"head\""));
  EXPECT_THAT(to_svg(Picture{.width = 1, .height = 1}), Not(HasSubstr("marker")));
}

}  // namespace
}  // namespace banyan::picture_test
