// SPDX-License-Identifier: Apache-2.0

#include "compression/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <limits>
#include <system_error>
#include <vector>

#include "compression/codecs.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

struct Word {
  std::string_view name;
  CodecChoice most;         // every suffix it takes, and the largest number; 0: it takes none
  std::string_view number;  // what that is
};

// The first of several for one codec is the one that is written.
constexpr Word kWords[] = {
    {"off", {}, ""},
    {"exact", {}, ""},
    {"fp16", {.codec = kFp16}, ""},
    {"bf16", {.codec = kBf16}, ""},
    {"int8", {.codec = kInt8, .stochastic = true}, ""},
    {"int4", {.codec = kInt4, .stochastic = true}, ""},
    {"dyn8", {.codec = kDyn8}, ""},
    {"e4m3", {.codec = kE4m3, .stochastic = true}, ""},
    {"fp8", {.codec = kE4m3, .stochastic = true}, ""},
    {"e5m2", {.codec = kE5m2, .stochastic = true}, ""},
    {"onebit", {.codec = kOnebit}, ""},
    {"threshold",
     {.codec = kThreshold, .half = true, .parameter = std::numeric_limits<double>::max()},
     "T, a number above 0"},
    {"sign",
     {.codec = kSign, .parameter = std::numeric_limits<float>::max()},
     "T, a number above 0 that float32 holds"},
    {"topk",
     {.codec = kTopk, .half = true, .reselects = true, .parameter = 1},
     "D, a number above 0 and at most 1"},
    {"randk", {.codec = kRandk, .half = true, .parameter = 1}, "D, a number above 0 and at most 1"},
};

struct Suffix {
  std::string_view text;
  bool CodecChoice::*chosen;
};
constexpr Suffix kSuffixes[] = {{"+sr", &CodecChoice::stochastic},
                                {":fp16", &CodecChoice::half},
                                {":resel", &CodecChoice::reselects}};

// One short line, whatever was given.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  return fmt::format("'{}{}'", printable(text.substr(0, kMost)), text.size() > kMost ? "..." : "");
}

// `part` begins at `at` in the name.
Status wrong(std::string_view name, size_t at, std::string_view part, std::string_view what,
             std::string_view valid) {
  return {Code::kInvalidArgument, fmt::format("{} at character {} of {} is no {}; valid: {}",
                                              quoted(part), at + 1, quoted(name), what, valid)};
}

std::string valid_names() {
  std::vector<std::string> names;
  for (const Word& word : kWords)
    names.push_back(
        fmt::format("{}{}{}", word.name, word.number.empty() ? "" : ":", word.number.substr(0, 1)));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string valid_suffixes(const Word& word, const CodecChoice& choice) {
  std::vector<std::string_view> valid;
  for (const auto& [text, chosen] : kSuffixes)
    if (word.most.*chosen && !(choice.*chosen)) valid.push_back(text);
  return valid.empty() ? "nothing more" : join(valid);
}

bool is_number(std::string_view text, double most, double* number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stopped == end && *number > 0 && *number <= most;
}

}  // namespace

Result<CodecChoice> parse_codec(std::string_view name) {
  const auto part_at = [name](size_t at, std::string_view ends) {
    return name.substr(at, name.find_first_of(ends, at + 1) - at);
  };
  const std::string_view stem = name.substr(0, name.find_first_of(":+"));
  const auto* word = std::find_if(std::begin(kWords), std::end(kWords),
                                  [&](const Word& known) { return known.name == stem; });
  if (word == std::end(kWords)) return wrong(name, 0, stem, "codec", valid_names());

  CodecChoice choice{.codec = word->most.codec};
  size_t at = stem.size();
  if (!word->number.empty()) {
    const std::string_view colon_and_number = part_at(at, ":");
    const std::string_view number =
        colon_and_number.empty() ? colon_and_number : colon_and_number.substr(1);
    if (!colon_and_number.starts_with(':') ||
        !is_number(number, word->most.parameter, &choice.parameter))
      return wrong(name, at, colon_and_number, "number for this codec",
                   fmt::format("{}:{}", word->name, word->number));
    at += colon_and_number.size();
  }
  while (at < name.size()) {
    const std::string_view part = part_at(at, ":+");
    const auto* suffix =
        std::find_if(std::begin(kSuffixes), std::end(kSuffixes), [&](const Suffix& known) {
          return known.text == part && word->most.*known.chosen && !(choice.*known.chosen);
        });
    if (suffix == std::end(kSuffixes))
      return wrong(name, at, part, fmt::format("suffix of {}", word->name),
                   valid_suffixes(*word, choice));
    choice.*suffix->chosen = true;
    at += part.size();
  }
  return choice;
}

std::string text_of(const CodecChoice& choice) {
  const auto* word = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& known) {
    return known.most.codec == choice.codec;
  });
  assert(word != std::end(kWords));
  std::string text(word->name);
  if (!word->number.empty()) text += fmt::format(":{}", choice.parameter);
  for (const auto& [suffix, chosen] : kSuffixes)
    if (choice.*chosen) text += suffix;
  return text;
}

Coding coding_of(const CodecChoice& choice, DataType values) {
  return {.parameter = choice.parameter,
          .carried = choice.half ? DataType::kFloat16 : values,
          .stochastic = choice.stochastic};
}

}  // namespace banyan
