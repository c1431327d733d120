// SPDX-License-Identifier: Apache-2.0

#include "src/base/markup.h"

#include <fmt/core.h>

#include "src/base/parse.h"

namespace banyan {

std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char letter : printable(text)) {
    switch (letter) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += letter;
    }
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
