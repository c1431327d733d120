// What every writer of XML and SVG needs.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace banyan {

// Makes text fit for an element or a double-quoted attribute. It is made printable() first: XML 1.0
// has no form for control characters.
std::string escape_markup(std::string_view text);

// Begins a drawing of that size in pixels, on white, with CSS rules and the content of <defs>; it
// ends with "</svg>\n".
std::string svg_begin(int width, int height, std::string_view style, std::string_view defs = {});

}  // namespace banyan
