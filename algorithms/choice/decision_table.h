// What every call of a communicator gets, as ranges of sizes: the whole of choose() at a glance.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan {

// Neighbouring sizes with one answer: those from the end of the range before on, which `most`
// still belongs to; UINT64_MAX: all that are larger. Sizes are bytes as rules count them
// (selection_bytes), of counts that are whole elements.
struct Decision {
  uint64_t most = UINT64_MAX;
  Choice choice;
};

// Of a collective that has a name in BANYAN_ALGO, as sums where it has an operation. Every choice
// of a rule or the table is found; of the lengths of segments that links choose, those of sizes
// that are tried: powers of two, and one and a half of them. A barrier, and an alltoallv, for which
// no size counts, are one range. The calls with a `v` have blocks of one length. Pure.
std::vector<Decision> decisions(Collective collective, DataType type, int ranks, Medium medium,
                                const Rules& rules, const Hierarchy* hierarchy = nullptr,
                                const MeasuredNetwork* measured = nullptr);

// For people, a line each, of float32, and of bfloat16 where that gets others:
// "allreduce of float32 up to 32K: recursive_doubling, by the default table".
std::vector<std::string> decision_lines(int ranks, Medium medium, const Rules& rules,
                                        const Hierarchy* hierarchy = nullptr,
                                        const MeasuredNetwork* measured = nullptr);

}  // namespace banyan
