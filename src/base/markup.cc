// SPDX-License-Identifier: Apache-2.0

#include "src/base/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace banyan {

namespace {

// Bytes of the character that begins there; 0: that is no UTF-8 (RFC 3629: shortest forms, no
// surrogates, up to U+10FFFF).
size_t character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const size_t bytes = byte(at) < 0x80       ? 1
                       : byte(at) >> 5 == 6  ? 2
                       : byte(at) >> 4 == 14 ? 3
                       : byte(at) >> 3 == 30 ? 4
                                             : 0;
  if (bytes <= 1 || at + bytes > text.size()) return bytes == 1 ? 1 : 0;
  uint32_t code = byte(at) & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(at + i) >> 6 != 2) return 0;
    code = code << 6 | (byte(at + i) & 0x3fU);
  }
  const bool valid = code >= kLeast[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? bytes : 0;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_at(text, at);
    const char letter = text[at];
    if (bytes == 0) {
      result += '?';
    } else if (bytes > 1) {
      result += text.substr(at, bytes);
    } else if (letter == '<') {
      result += "&lt;";
    } else if (letter == '>') {
      result += "&gt;";
    } else if (letter == '&') {
      result += "&amp;";
    } else if (letter == '"') {
      result += "&quot;";
    } else {
      result += static_cast<uint8_t>(letter) < 0x20 || letter == 0x7f ? ' ' : letter;
    }
    at += std::max<size_t>(bytes, 1);
  }
  return result;
}

std::string svg_begin(int width, int height, std::string_view style, std::string_view defs) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\""
      " viewBox=\"0 0 {0} {1}\">\n"
      "<style>{2}</style>\n"
      "{3}"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height, style, defs.empty() ? std::string() : fmt::format("<defs>{}</defs>\n", defs));
}

}  // namespace banyan
