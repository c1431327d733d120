// What the steps do to symbols, and whether what is left is right.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <vector>

#include "algorithms/verify/verify_parts.h"

namespace banyan {

class SymbolArithmetic {
 public:
  SymbolArithmetic(const VerifiedCall& call, Symbols& symbols) : call_(call), symbols_(symbols) {}

  const Symbols& symbols() const { return symbols_; }
  // Bytes of sums that became complete by an addition, on all ranks together.
  uint64_t finished() const { return finished_; }

  // `left` is what the step reads from src, and becomes what it writes; `right` is src2 or the
  // message.
  ScheduleFault apply(const Step& step, int rank, std::vector<Run>& left, std::vector<Run>& right);
  // What the windows of all ranks have, by rank, becomes the result of kFold in the first.
  ScheduleFault fold(const Step& step, int rank, std::vector<std::vector<Run>>& windows);
  // Where the call keeps what is left, it is kept of each message once, wherever that is encoded.
  ScheduleFault check_kept() const;
  // Both are sorted lists of what is in an output.
  ScheduleFault compare(const std::vector<Run>& found, const std::vector<Run>& expected) const;
  ScheduleFault same_order(const std::vector<Run>& left, const std::vector<Run>& right) const;

 private:
  ScheduleFault decode(std::vector<Run>& runs, int rank, bool with_scalar);
  ScheduleFault encode(std::vector<Run>& runs);
  // By the step's codec.
  ScheduleFault decode_message(const Step& step, std::vector<Run>& runs) const;
  ScheduleFault open_message(const Step& step, std::vector<Run>& runs) const;
  ScheduleFault encode_message(const Step& step, int rank, std::vector<Run>& runs,
                               const std::vector<Run>& selection);
  ScheduleFault keep(const Step& step, int rank, const std::vector<Run>& values, SymbolId message);
  ScheduleFault combine(std::vector<Run>& left, const std::vector<Run>& right);
  ScheduleFault compare_result(const Run& found, uint64_t origin) const;

  // Who encodes a message first, and how often what it leaves over is kept.
  struct Kept {
    int rank;
    uint32_t slot;
    int times;
  };

  const VerifiedCall& call_;
  Symbols& symbols_;
  uint64_t finished_ = 0;
  std::map<SymbolId, Kept> kept_;  // by message
  std::vector<Run> result_;        // of an addition, whose memory the next one has
};

}  // namespace banyan
