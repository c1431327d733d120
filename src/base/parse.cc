// Text to values, and the sentences that say why a text is none.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "src/base/same_word.h"

namespace banyan {

namespace {

constexpr std::string_view kSizeForm =
    "a number of bytes, with K, M or G for powers of 1,024 (4096, 64K, 1M, 2G)";
constexpr std::string_view kDurationForm =
    "a number with us, ms or s (5s, 200ms, 50us), or inf for no limit";

// What is quoted in an error stays one short line, whatever was given.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  return fmt::format("'{}{}'", text.substr(0, kMost), text.size() > kMost ? "..." : "");
}

Status malformed(std::string_view text, std::string_view form) {
  return {Code::kInvalidArgument, fmt::format("{} is not {}", quoted(text), form)};
}

// The whole text as a number, or nothing.
template <typename T>
bool whole_number(std::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stopped == end;
}

bool decimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j < row.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// The first `count` values of an enum whose names `name_of` knows.
template <typename Enum>
std::vector<std::string_view> names_of(int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name_of(static_cast<Enum>(i)));
  return names;
}

template <typename Enum>
Result<Enum> parse_name(std::string_view what, std::string_view text, int count) {
  const auto names = names_of<Enum>(count);
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](std::string_view name) { return same_word(name, text); });
  if (found == names.end()) return unknown_word(what, text, names);
  return static_cast<Enum>(found - names.begin());
}

// Gives the bytes of the character that begins there. 0: that is no UTF-8 (RFC 3629: shortest
// forms, no surrogates, up to U+10FFFF).
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

// C0, DEL and C1, which terminals obey.
bool is_control(std::string_view character) {
  const auto first = static_cast<uint8_t>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<uint8_t>(character[1]) < 0xa0;
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
      case 'K': shift = 10; break;
      case 'm':
      case 'M': shift = 20; break;
      case 'g':
      case 'G': shift = 30; break;
      default: break;  // a digit, or what whole_number() refuses
    }
    if (shift != 0) digits.remove_suffix(1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return malformed(text, kSizeForm);
  uint64_t value = 0;
  if (!whole_number(digits, &value) || value > std::numeric_limits<uint64_t>::max() >> shift)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is too large; sizes take K, M and G and end below 2^64 bytes",
                              quoted(text)));
  return value << shift;
}

std::string format_size(uint64_t bytes) {
  constexpr std::array<std::pair<int, char>, 3> kSuffixes = {{{30, 'G'}, {20, 'M'}, {10, 'K'}}};
  for (const auto& [shift, letter] : kSuffixes) {
    if (bytes != 0 && bytes % (uint64_t{1} << shift) == 0)
      return fmt::format("{}{}", bytes >> shift, letter);
  }
  return fmt::format("{}", bytes);
}

Result<double> parse_duration(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  std::string_view number = text;
  double unit = 1;
  if (number.ends_with("us")) {
    unit = 1e-6;
    number.remove_suffix(2);
  } else if (number.ends_with("ms")) {
    unit = 1e-3;
    number.remove_suffix(2);
  } else if (number.ends_with("s")) {
    number.remove_suffix(1);
  }
  double value = 0;
  // Checked before from_chars, which would also take signs, exponents, "inf" and "nan".
  if (!decimal(number) || !whole_number(number, &value)) return malformed(text, kDurationForm);
  return value * unit;
}

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  if (!whole_number(text, &value) || value < least || value > most) {
    if (most == std::numeric_limits<int64_t>::max())
      return malformed(text, fmt::format("a whole number of at least {}", least));
    return malformed(text, fmt::format("a whole number from {} to {}", least, most));
  }
  return value;
}

Result<bool> parse_switch(std::string_view text) {
  constexpr std::array<std::string_view, 4> kOn = {"on", "1", "true", "yes"};
  constexpr std::array<std::string_view, 4> kOff = {"off", "0", "false", "no"};
  if (std::find(kOn.begin(), kOn.end(), text) != kOn.end()) return true;
  if (std::find(kOff.begin(), kOff.end(), text) != kOff.end()) return false;
  return malformed(text, "a switch; valid: on, off, 1, 0, true, false, yes, no");
}

Result<DataType> parse_data_type(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, DataType>, 4> kAliases = {
      {{"fp16", DataType::kFloat16},
       {"bf16", DataType::kBfloat16},
       {"fp32", DataType::kFloat32},
       {"fp64", DataType::kFloat64}}};
  for (const auto& [alias, type] : kAliases) {
    if (same_word(text, alias)) return type;
  }
  return parse_name<DataType>("data type", text, kDataTypeCount);
}

Result<ReduceOp> parse_reduce_op(std::string_view text) {
  // The last operation, premulsum, needs a scalar that a word cannot give.
  return parse_name<ReduceOp>("operation", text, kReduceOpCount - 1);
}

Result<Collective> parse_collective(std::string_view text) {
  // finalize and split take part in agreement, but nobody can ask for them by name.
  return parse_name<Collective>("collective", text, static_cast<int>(Collective::kFinalize));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_at(text, at);
    const std::string_view character = text.substr(at, std::max<size_t>(bytes, 1));
    if (bytes == 0) {
      shown += '?';
    } else if (is_control(character)) {
      shown += ' ';
    } else {
      shown += character;
    }
    at += character.size();
  }
  return shown;
}

std::string join(std::span<const std::string_view> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words.begin(), words.end(), separator));
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> words) {
  // The distance is quadratic; beyond this length the beginning decides.
  constexpr size_t kMost = 64;
  std::string_view best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string_view word : words) {
    const size_t distance = edit_distance(text.substr(0, kMost), word.substr(0, kMost));
    if (distance < least) {
      least = distance;
      best = word;
    }
  }
  return best;
}

Status unknown_word(std::string_view what, std::string_view text,
                    std::span<const std::string_view> words) {
  return {Code::kInvalidArgument,
          fmt::format("{} {} is unknown; valid: {}", what, quoted(text), join(words))};
}

}  // namespace banyan
