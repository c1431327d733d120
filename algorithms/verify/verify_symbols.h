// The verifier keeps this instead of numbers: symbols, and memory made of runs of them.
//
// A symbol says what a byte run is made of, as a tree of contributions; a run adds which element it
// is. Symbols are interned, so two runs were combined in the same order exactly when their symbols
// are equal (the operands of one addition may be exchanged). By content, all trees of the same
// contributions are one symbol.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/schedule.h"

namespace banyan {

// What is wrong; empty when nothing is.
using ScheduleFault = std::string;

using SymbolId = uint32_t;

enum class SymbolStage : uint8_t {
  kUntouched,  // what was in the caller's memory, and is no contribution
  kRaw,        // a contribution of type T, not decoded yet
  kPartial,    // a combination of type A
  kFinal,      // encoded to T
  kResult,     // only in what is expected: any complete result
  kMessage,    // what a codec says of values of type A
  kLeft,       // what such a message does not say of them, which is nobody's contribution
};

// Bytes [begin, end) are bytes [origin, origin + end - begin) of what the symbol stands for: of the
// contribution, or of the vector of partial sums.
struct Run {
  uint64_t begin;
  uint64_t end;
  SymbolId symbol;
  uint64_t origin;

  uint64_t origin_at(uint64_t position) const { return origin + (position - begin); }
  Run cut(uint64_t from, uint64_t to) const { return {from, to, symbol, origin_at(from)}; }
};

class Symbols {
 public:
  // `contribution` is the stage that the caller's values have: kPartial where decoding does
  // nothing.
  Symbols(int ranks, SymbolStage contribution, bool by_content);

  SymbolId contribution(int rank) const { return static_cast<SymbolId>(rank); }
  bool is_contribution(SymbolId id) const { return id < static_cast<SymbolId>(ranks_); }
  SymbolId untouched() const { return static_cast<SymbolId>(ranks_); }
  SymbolId result() const { return static_cast<SymbolId>(ranks_) + 1; }
  SymbolId left_over() const { return static_cast<SymbolId>(ranks_) + 2; }
  SymbolId decoded(SymbolId id);
  SymbolId encoded(SymbolId id);
  SymbolId combined(SymbolId left, SymbolId right);

  // Messages are one symbol when the codec, the symbols of the values and their cut into runs are
  // the same. What such a message says is one symbol for each of these runs.
  SymbolId message(CodecId codec, const std::vector<Run>& values);
  struct Saying {
    CodecId codec;
    std::vector<Run> values;
  };
  const Saying& said(SymbolId message) const { return said_.at(message); }

  SymbolStage stage(SymbolId id) const { return entries_[id].stage; }
  // Every rank's contribution is in it exactly once, but for a chance of 2^-64.
  bool is_complete(SymbolId id) const { return entries_[id].print == complete_; }
  // Empty when it is complete.
  ScheduleFault incomplete(SymbolId id) const;
  // A rank whose contribution is not in it, -1 if there is none.
  int missing(SymbolId id) const;
  // It is ((c0 + c1) + c2) + ..., where c is what a rank gave or what a message says of that. Only
  // the whole may then be rounded, or said by a message. By content every order is.
  bool is_in_rank_order(SymbolId id) const;

 private:
  struct Entry {
    SymbolStage stage;
    SymbolId left;  // its operands, lower than itself; none of a contribution
    SymbolId right;
    uint64_t print;  // the sum of its contributions' numbers
  };
  // Without what was made of it as a whole.
  SymbolId bare(SymbolId id) const;
  SymbolId add(SymbolStage stage, SymbolId left, SymbolId right, uint64_t print);
  // How often each rank's contribution is in it: 0, 1, or 2 for more.
  std::vector<uint8_t> times(SymbolId id) const;

  int ranks_;
  bool by_content_;
  uint64_t complete_ = 0;
  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, SymbolId> interned_;
  std::map<std::vector<uint64_t>, SymbolId> messages_;  // by codec and runs
  std::unordered_map<SymbolId, Saying> said_;
};

// Holds a sorted list of disjoint runs, none of which goes on in the next; what is in no run is
// undefined.
class Memory {
 public:
  // Makes `found` the runs of [offset, offset + size), counted from `offset`. It is shorter than
  // `size` if a byte in it is undefined.
  void read(uint64_t offset, uint64_t size, std::vector<Run>& found) const;
  // `runs` are counted from `offset` and have no holes.
  void write(uint64_t offset, const std::vector<Run>& runs);
  void write(uint64_t offset, uint64_t size, SymbolId symbol, uint64_t origin);
  const std::vector<Run>& runs() const { return runs_; }

 private:
  std::vector<Run> runs_;
};

}  // namespace banyan
