// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/rule_tokens.h"

#include <fmt/core.h>

#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (kBlanks.find(text[at]) != text.npos) {
      at = end;
      continue;
    }
    if (kPunctuation.find(text[at]) == text.npos) {
      while (end < text.size() && kPunctuation.find(text[end]) == text.npos &&
             kBlanks.find(text[end]) == text.npos)
        ++end;
    }
    tokens.push_back({text.substr(at, end - at), at + 1});
    at = end;
  }
  tokens.push_back({{}, text.size() + 1});
  return tokens;
}

std::string quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  return fmt::format("'{}{}'", printable(text.substr(0, kMost)), text.size() > kMost ? "..." : "");
}

}  // namespace banyan
