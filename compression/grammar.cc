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
#include "src/base/float_mode.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

struct Word {
  std::string_view name;
  CodecId codec;
  std::string_view suffixes{};  // that it takes
  std::string_view number{};    // what that is; empty: it takes none
  double most = 0;              // that the number may be
};

constexpr double kMostFloat64 = std::numeric_limits<double>::max();
constexpr double kMostFloat32 = std::numeric_limits<float>::max();

// The first of several for one codec is the one that is written.
constexpr Word kWords[] = {
    {"off", kNoCodec},
    {"exact", kNoCodec},
    {"fp16", kFp16},
    {"bf16", kBf16},
    {"int8", kInt8, "+sr"},
    {"int4", kInt4, "+sr"},
    {"dyn8", kDyn8},
    {"e4m3", kE4m3, "+sr"},
    {"fp8", kE4m3, "+sr"},
    {"e5m2", kE5m2, "+sr"},
    {"onebit", kOnebit},
    {"threshold", kThreshold, ":fp16", "T, a number above 0", kMostFloat64},
    {"sign", kSign, "", "T, a number above 0 that float32 holds", kMostFloat32},
    {"topk", kTopk, ":fp16:resel", "D, a number above 0 and at most 1", 1},
    {"randk", kRandk, ":fp16", "D, a number above 0 and at most 1", 1},
};

struct Suffix {
  std::string_view text;
  bool CodecChoice::*chosen;
};
constexpr Suffix kSuffixes[] = {{"+sr", &CodecChoice::stochastic},
                                {":fp16", &CodecChoice::half},
                                {":resel", &CodecChoice::reselects}};

bool takes(const Word& word, const Suffix& suffix) {
  return word.suffixes.find(suffix.text) != std::string_view::npos;
}

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
  for (const Suffix& suffix : kSuffixes)
    if (takes(word, suffix) && !(choice.*suffix.chosen)) valid.push_back(suffix.text);
  return valid.empty() ? "nothing more" : join(valid);
}

bool is_number(std::string_view text, double most, double* number) {
  const DefaultFloatMode mode;  // in another one std::from_chars() may come to a neighbour
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stopped == end && *number > 0 && *number <= most;
}

const Word* find_word(CodecId codec) {
  return std::find_if(std::begin(kWords), std::end(kWords),
                      [&](const Word& known) { return known.codec == codec; });
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

  CodecChoice choice;
  choice.codec = word->codec;
  size_t at = stem.size();
  if (!word->number.empty()) {
    const std::string_view colon_and_number = part_at(at, ":");
    const std::string_view number =
        colon_and_number.empty() ? colon_and_number : colon_and_number.substr(1);
    if (!colon_and_number.starts_with(':') || !is_number(number, word->most, &choice.parameter))
      return wrong(name, at, colon_and_number, "number for this codec",
                   fmt::format("{}:{}", word->name, word->number));
    at += colon_and_number.size();
  }
  while (at < name.size()) {
    const std::string_view part = part_at(at, ":+");
    const auto* suffix =
        std::find_if(std::begin(kSuffixes), std::end(kSuffixes), [&](const Suffix& known) {
          return known.text == part && takes(*word, known) && !(choice.*known.chosen);
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
  if (choice.codec == kAbsoluteBound) return fmt::format("absolute:{}", choice.parameter);
  if (choice.codec == kRelativeBound) return fmt::format("relative:{}", choice.parameter);
  const Word* word = find_word(choice.codec);
  assert(word != std::end(kWords));
  std::string text(word->name);
  if (!word->number.empty()) text += fmt::format(":{}", choice.parameter);
  for (const auto& [suffix, chosen] : kSuffixes)
    if (choice.*chosen) text += suffix;
  return text;
}

bool is_choice(const CodecChoice& choice) {
  const Word* word = find_word(choice.codec);
  if (word == std::end(kWords)) return false;
  const bool takes_suffixes = std::all_of(
      std::begin(kSuffixes), std::end(kSuffixes),
      [&](const Suffix& suffix) { return takes(*word, suffix) || !(choice.*suffix.chosen); });
  const double number = choice.parameter;
  const bool is_in_range = number > 0 && number <= word->most;
  return takes_suffixes && (word->number.empty() ? number == 0 : is_in_range);
}

Coding coding_of(const CodecChoice& choice, DataType values) {
  return {.parameter = choice.parameter,
          .carried = choice.half ? DataType::kFloat16 : values,
          .stochastic = choice.stochastic};
}

}  // namespace banyan
