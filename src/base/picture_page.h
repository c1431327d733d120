// A drawing with a title above it and a legend below.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/picture.h"

namespace banyan {

// What a kind of box or line means, shown by one like it; or just a sentence.
struct LegendEntry {
  std::string_view words;
  std::optional<PictureBox> box{};
  std::optional<PictureLine> line{};
};

struct Page {
  std::string title{};
  std::string note{};  // below the title; empty: none
  std::span<const LegendEntry> legend{};
};
// As wide as the drawing and its margins, and wide enough to be read.
Picture on_page(const Page& page, const Picture& drawn);

inline constexpr int kPageMargin = 20;

}  // namespace banyan
