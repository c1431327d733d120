// What every call of a communicator gets, as ranges of sizes: the whole of choose() at a glance.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan {

// A decision is that of neighbouring sizes with one answer: from the end of the range before on, up
// to `most`, which still belongs to it. UINT64_MAX: all that are larger. Sizes are bytes as rules
// count them (selection_bytes), of counts that are whole elements.
struct Decision {
  uint64_t most = UINT64_MAX;
  Choice choice;
};

// Lists the decisions for a collective that has a name in BANYAN_ALGO, as sums where it has an
// operation, which may be `invariant`. Pure.
//
//   a choice of a rule or the table        is found for every size
//   lengths of segments that links choose  are found for sizes that are tried: powers of two, and
//                                          one and a half of them
//   a barrier, and an alltoallv            are one range, since no size counts
//   calls with a `v`                       have blocks of one length
std::vector<Decision> decisions(Collective collective, DataType type, int ranks, Medium medium,
                                const Rules& rules, const Hierarchy* hierarchy = nullptr,
                                const MeasuredNetwork* measured = nullptr, bool invariant = false);

// Prints the decisions for people, a line each, of float32, and of bfloat16 where that gets others:
// "allreduce of float32 up to 32K: recursive_doubling, by the default table".
std::vector<std::string> decision_lines(int ranks, Medium medium, const Rules& rules,
                                        const Hierarchy* hierarchy = nullptr,
                                        const MeasuredNetwork* measured = nullptr,
                                        bool invariant = false);

}  // namespace banyan
