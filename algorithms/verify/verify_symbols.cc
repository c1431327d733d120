// Interning by operands, and the splitting of runs.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/verify_symbols.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace banyan {
namespace {

// In the place of a right operand.
constexpr uint64_t kDecoded = 0xffffffff;
constexpr uint64_t kEncoded = 0xfffffffe;
constexpr SymbolId kNoSymbol = 0xffffffff;

uint64_t key_of(uint64_t left, uint64_t right) {
  return left << 32 | right;
}

// As good as drawn (splitmix64: Steele, Lea, Flood 2014).
uint64_t number_of(int rank) {
  uint64_t mixed = (static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

}  // namespace

Symbols::Symbols(int ranks, SymbolStage contribution, bool by_content)
    : ranks_(ranks), by_content_(by_content) {
  for (int rank = 0; rank < ranks; ++rank) {
    entries_.push_back({contribution, kNoSymbol, kNoSymbol, number_of(rank)});
    complete_ += number_of(rank);
  }
  entries_.push_back({SymbolStage::kUntouched, kNoSymbol, kNoSymbol, 0});
  entries_.push_back({SymbolStage::kResult, kNoSymbol, kNoSymbol, 0});
  entries_.push_back({SymbolStage::kLeft, kNoSymbol, kNoSymbol, 0});
}

SymbolId Symbols::add(SymbolStage stage, SymbolId left, SymbolId right, uint64_t print) {
  entries_.push_back({stage, left, right, print});
  return static_cast<SymbolId>(entries_.size() - 1);
}

SymbolId Symbols::decoded(SymbolId id) {
  const auto [found, is_new] = interned_.try_emplace(key_of(id, kDecoded));
  if (is_new) found->second = add(SymbolStage::kPartial, id, kNoSymbol, entries_[id].print);
  return found->second;
}

SymbolId Symbols::encoded(SymbolId id) {
  const auto [found, is_new] = interned_.try_emplace(key_of(id, kEncoded));
  if (is_new) found->second = add(SymbolStage::kFinal, id, kNoSymbol, entries_[id].print);
  return found->second;
}

SymbolId Symbols::combined(SymbolId left, SymbolId right) {
  const uint64_t print = entries_[left].print + entries_[right].print;
  const auto [found, is_new] = interned_.try_emplace(
      by_content_ ? print : key_of(std::min(left, right), std::max(left, right)));
  if (is_new) found->second = add(SymbolStage::kPartial, left, right, print);
  return found->second;
}

SymbolId Symbols::message(CodecId codec, const std::vector<Run>& values) {
  std::vector<uint64_t> key{codec};
  for (const Run& run : values) key.insert(key.end(), {run.end, run.symbol, run.origin});
  const auto [found, is_new] = messages_.try_emplace(std::move(key));
  if (!is_new) return found->second;
  found->second = add(SymbolStage::kMessage, kNoSymbol, kNoSymbol, 0);
  Saying saying{codec, values};
  for (Run& run : saying.values)
    run.symbol = add(SymbolStage::kPartial, run.symbol, kNoSymbol, entries_[run.symbol].print);
  said_.emplace(found->second, std::move(saying));
  return found->second;
}

std::vector<uint8_t> Symbols::times(SymbolId id) const {
  std::vector<uint8_t> times(id + size_t{1}, 0);
  times[id] = 1;
  for (SymbolId each = id; each != kNoSymbol; --each)
    for (const SymbolId operand : {entries_[each].left, entries_[each].right})
      if (operand != kNoSymbol)
        times[operand] = static_cast<uint8_t>(std::min(2, times[operand] + times[each]));
  times.resize(static_cast<size_t>(ranks_), 0);
  return times;
}

ScheduleFault Symbols::incomplete(SymbolId id) const {
  if (is_complete(id)) return {};
  const std::vector<uint8_t> found = times(id);
  const auto rank_of = [&](uint8_t count) {
    return std::to_string(std::find(found.begin(), found.end(), count) - found.begin());
  };
  if (std::find(found.begin(), found.end(), 2) != found.end())
    return "the contribution of rank " + rank_of(2) + " is in it more than once";
  return "the contribution of rank " + rank_of(0) + " is missing";
}

int Symbols::missing(SymbolId id) const {
  if (is_complete(id)) return -1;
  const std::vector<uint8_t> found = times(id);
  const auto first = std::find(found.begin(), found.end(), 0);
  return first == found.end() ? -1 : static_cast<int>(first - found.begin());
}

SymbolId Symbols::bare(SymbolId id) const {
  while (entries_[id].left != kNoSymbol && entries_[id].right == kNoSymbol) id = entries_[id].left;
  return id;
}

bool Symbols::is_in_rank_order(SymbolId id) const {
  if (by_content_) return true;
  id = bare(id);
  for (int rank = ranks_ - 1; rank > 0; --rank) {
    const Entry& sum = entries_[id];
    if (sum.right == kNoSymbol) return false;
    const bool last = bare(sum.right) == contribution(rank);
    if (!last && bare(sum.left) != contribution(rank)) return false;
    id = last ? sum.left : sum.right;
  }
  return bare(id) == contribution(0);
}

void Memory::read(uint64_t offset, uint64_t size, std::vector<Run>& found) const {
  found.clear();
  const uint64_t end = offset + size;
  auto run = std::partition_point(runs_.begin(), runs_.end(),
                                  [&](const Run& each) { return each.end <= offset; });
  for (uint64_t at = offset; at < end && run != runs_.end() && run->begin <= at; ++run) {
    Run piece = run->cut(at, std::min(end, run->end));
    at = piece.end;
    piece.begin -= offset;
    piece.end -= offset;
    found.push_back(piece);
  }
}

// The runs that touch what is written are written anew, since they may go on in it.
void Memory::write(uint64_t offset, const std::vector<Run>& runs) {
  if (runs.empty()) return;
  const uint64_t end = offset + runs.back().end;
  auto first = std::partition_point(runs_.begin(), runs_.end(),
                                    [&](const Run& each) { return each.end < offset; });
  auto last =
      std::partition_point(first, runs_.end(), [&](const Run& each) { return each.begin <= end; });
  std::vector<Run> updated;
  updated.reserve(runs.size() + 2);
  const auto add = [&](const Run& run) {
    const bool goes_on = !updated.empty() && updated.back().symbol == run.symbol &&
                         updated.back().origin_at(run.begin) == run.origin;
    if (goes_on)
      updated.back().end = run.end;
    else
      updated.push_back(run);
  };
  if (first != last && first->begin < offset) add(first->cut(first->begin, offset));
  for (const Run& run : runs) add({run.begin + offset, run.end + offset, run.symbol, run.origin});
  if (first != last && std::prev(last)->end > end)
    add(std::prev(last)->cut(end, std::prev(last)->end));

  const auto replaced = static_cast<size_t>(last - first);
  const size_t shared = std::min(replaced, updated.size());
  first = std::copy_n(updated.begin(), shared, first);
  if (replaced > shared)
    runs_.erase(first, last);
  else
    runs_.insert(first, updated.begin() + static_cast<std::ptrdiff_t>(shared), updated.end());
}

void Memory::write(uint64_t offset, uint64_t size, SymbolId symbol, uint64_t origin) {
  if (size != 0) write(offset, {Run{0, size, symbol, origin}});
}

}  // namespace banyan
