// Interning by operands, and the splitting of runs.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify_symbols.h"

#include <algorithm>
#include <iterator>

namespace banyan {
namespace {

// In the place of a right operand.
constexpr uint64_t kDecoded = 0xffffffff;
constexpr uint64_t kEncoded = 0xfffffffe;

uint64_t key_of(uint64_t left, uint64_t right) {
  return left << 32 | right;
}

}  // namespace

Symbols::Symbols(int ranks, SymbolStage contribution)
    : ranks_(ranks), words_((static_cast<size_t>(ranks) + 63) / 64) {
  const size_t fixed = static_cast<size_t>(ranks) + 2;
  entries_.assign(fixed, {contribution, -1});
  bits_.assign(fixed * words_, 0);
  entries_[untouched()].stage = SymbolStage::kUntouched;
  entries_[result()].stage = SymbolStage::kResult;
  for (int rank = 0; rank < ranks; ++rank)
    bits(this->contribution(rank))[rank / 64] |= uint64_t{1} << (rank % 64);
}

SymbolId Symbols::add(SymbolStage stage, SymbolId left, SymbolId right, uint64_t key) {
  const auto id = static_cast<SymbolId>(entries_.size());
  interned_.emplace(key, id);
  Entry entry{stage, std::max(entries_[left].twice, entries_[right].twice)};
  bits_.resize(bits_.size() + words_);
  for (size_t word = 0; word < words_; ++word) {
    const uint64_t both = bits(left)[word] & bits(right)[word];
    if (left != right && both != 0)
      entry.twice = static_cast<int32_t>(word * 64) + __builtin_ctzll(both);
    bits(id)[word] = bits(left)[word] | bits(right)[word];
  }
  entries_.push_back(entry);
  return id;
}

SymbolId Symbols::decoded(SymbolId id) {
  const auto found = interned_.find(key_of(id, kDecoded));
  if (found != interned_.end()) return found->second;
  return add(SymbolStage::kPartial, id, id, key_of(id, kDecoded));
}

SymbolId Symbols::encoded(SymbolId id) {
  const auto found = interned_.find(key_of(id, kEncoded));
  if (found != interned_.end()) return found->second;
  return add(SymbolStage::kFinal, id, id, key_of(id, kEncoded));
}

SymbolId Symbols::combined(SymbolId left, SymbolId right) {
  const uint64_t key = key_of(std::min(left, right), std::max(left, right));
  const auto found = interned_.find(key);
  if (found != interned_.end()) return found->second;
  const SymbolId id = add(SymbolStage::kPartial, left, right, key);
  if (left == right)
    for (int rank = 0; rank < ranks_; ++rank)
      if ((bits(id)[rank / 64] >> (rank % 64) & 1) != 0) entries_[id].twice = rank;
  return id;
}

Fault Symbols::incomplete(SymbolId id) const {
  if (entries_[id].twice >= 0)
    return "the contribution of rank " + std::to_string(entries_[id].twice) +
           " is in it more than once";
  for (int rank = 0; rank < ranks_; ++rank)
    if ((bits(id)[rank / 64] >> (rank % 64) & 1) == 0)
      return "the contribution of rank " + std::to_string(rank) + " is missing";
  return {};
}

std::vector<Run> Memory::read(uint64_t offset, uint64_t size) const {
  std::vector<Run> found;
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
  return found;
}

void Memory::write(uint64_t offset, const std::vector<Run>& runs) {
  if (runs.empty()) return;
  const uint64_t end = offset + runs.back().end;
  auto first = std::partition_point(runs_.begin(), runs_.end(),
                                    [&](const Run& each) { return each.end <= offset; });
  auto last =
      std::partition_point(first, runs_.end(), [&](const Run& each) { return each.begin < end; });
  std::vector<Run> updated;
  updated.reserve(runs.size() + 2);
  if (first != last && first->begin < offset) updated.push_back(first->cut(first->begin, offset));
  for (const Run& run : runs)
    updated.push_back({run.begin + offset, run.end + offset, run.symbol, run.origin});
  if (first != last && std::prev(last)->end > end)
    updated.push_back(std::prev(last)->cut(end, std::prev(last)->end));

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
