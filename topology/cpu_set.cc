// SPDX-License-Identifier: Apache-2.0

#include "topology/cpu_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "src/base/parse.h"

namespace banyan {

namespace {

constexpr size_t kWordBits = 64;
constexpr size_t kGroupBits = 32;  // of a mask as text

Status malformed(std::string_view text, std::string_view form) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' is not {}", printable(text.substr(0, 80)), form)};
}

}  // namespace

void CpuSet::add(int cpu) {
  const size_t word = static_cast<size_t>(cpu) / kWordBits;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= uint64_t{1} << (static_cast<size_t>(cpu) % kWordBits);
}

bool CpuSet::has(int cpu) const {
  const size_t word = static_cast<size_t>(cpu) / kWordBits;
  return word < words_.size() && (words_[word] >> (static_cast<size_t>(cpu) % kWordBits) & 1) != 0;
}

int CpuSet::count() const {
  int count = 0;
  for (const uint64_t word : words_) count += std::popcount(word);
  return count;
}

std::vector<int> CpuSet::numbers() const {
  std::vector<int> numbers;
  for (size_t i = 0; i < words_.size(); ++i)
    for (uint64_t rest = words_[i]; rest != 0; rest &= rest - 1)
      numbers.push_back(static_cast<int>(i * kWordBits) + std::countr_zero(rest));
  return numbers;
}

bool CpuSet::contains(const CpuSet& other) const {
  if (other.words_.size() > words_.size()) return false;
  for (size_t i = 0; i < other.words_.size(); ++i)
    if ((other.words_[i] & ~words_[i]) != 0) return false;
  return true;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  trim();
  return *this;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::string CpuSet::list() const {
  std::string text;
  const int end = static_cast<int>(words_.size() * kWordBits);
  for (int first = 0; first < end; ++first) {
    if (!has(first)) continue;
    int last = first;
    while (has(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text;
}

std::string CpuSet::mask() const {
  if (empty()) return "00000000";
  std::string text;
  for (size_t i = words_.size(); i-- > 0;) {
    const auto high = static_cast<uint32_t>(words_[i] >> kGroupBits);
    if (!text.empty() || high != 0) text += fmt::format("{}{:08x}", text.empty() ? "" : ",", high);
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", static_cast<uint32_t>(words_[i]));
  }
  return text;
}

Result<CpuSet> parse_cpu_list(std::string_view text) {
  CpuSet set;
  const std::string_view list = trim(text);
  if (list.empty()) return set;
  for (const std::string_view part : split(list, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash), 0, kMostCpus - 1);
    const auto last = dash == std::string_view::npos
                          ? first
                          : parse_integer(part.substr(dash + 1), 0, kMostCpus - 1);
    if (!first.ok() || !last.ok() || *last < *first)
      return malformed(text, "a list of processors such as 0-3,8");
    for (int64_t cpu = *first; cpu <= *last; ++cpu) set.add(static_cast<int>(cpu));
  }
  return set;
}

Result<CpuSet> parse_cpu_mask(std::string_view text) {
  constexpr std::string_view kForm =
      "a mask of processors in groups of eight hexadecimal digits such as 00000000,0000ffff";
  CpuSet set;
  const std::string_view mask = trim(text);
  if (mask.empty()) return set;
  const auto groups = split(mask, ',');
  if (groups.size() * kGroupBits > kMostCpus) return malformed(text, kForm);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string_view group = groups[groups.size() - 1 - i];
    uint32_t bits = 0;
    const auto [stopped, error] =
        std::from_chars(group.data(), group.data() + group.size(), bits, 16);
    if (error != std::errc() || stopped != group.data() + group.size() || group.size() > 8)
      return malformed(text, kForm);
    for (size_t bit = 0; bit < kGroupBits; ++bit)
      if ((bits >> bit & 1) != 0) set.add(static_cast<int>(i * kGroupBits + bit));
  }
  return set;
}

}  // namespace banyan
