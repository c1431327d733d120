// The words of BANYAN_ALGO, each with its place.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

inline constexpr std::string_view kPunctuation = ",;:^=-()";

// A word, one character of punctuation, or nothing: the end.
struct Token {
  std::string_view text;
  size_t position;  // in characters, from 1

  bool is(char mark) const { return text.size() == 1 && text[0] == mark; }
  bool word() const { return !text.empty() && kPunctuation.find(text[0]) == text.npos; }
};

// Views of the text; the last token is the end.
std::vector<Token> tokenize(std::string_view text);
// An error shows the text so: it stays one short line whatever was given.
std::string quoted(std::string_view text);

}  // namespace banyan
