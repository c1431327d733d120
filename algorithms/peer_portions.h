// Calls by windows (peers.h) are cut into portions, each of which fits half a window. Private to
// this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "algorithms/builder.h"
#include "algorithms/problem.h"

namespace banyan {

// A part of the call, as one rank does it in one half of its window. Empty slices are nothing.
struct Portion {
  struct Move {
    Slice from;
    Slice to;
    StepCodec codec{};  // by which it is encoded
  };
  struct Pull {
    int place;  // in the group, whose window is read
    Slice from;
    Slice to;
    StepCodec codec{};  // by which it is decoded
  };
  std::vector<Move> own{};    // from this rank to itself
  std::vector<Move> given{};  // to this rank's window
  Slice folded{};             // of all windows; empty: nothing is
  Slice sum{};                // and where that goes
  StepCodec codec{};          // of both, which are messages
  bool divides = false;       // what was pulled
  bool shares_sum = false;    // others read it, so they must hear of it
  std::vector<Pull> pulled{};
  // Ranks have portions of their own number of alltoallv: bit p is set where the rank at place p
  // reads this rank's window in this one, or is read by this rank.
  uint32_t readers = 0;
  uint32_t owners = 0;
};

// All of a call, in order; the same number of them on all ranks, but of alltoallv.
std::vector<Portion> portions_of(ScheduleBuilder& builder, const Problem& problem,
                                 const Group& group, uint64_t window);
// The same for exact calls whose portions something else moves (delegated.h): vectors are summed
// share by share wherever they are longer than that, also those for a root.
std::vector<Portion> portions_in_shares(const Problem& problem, const Group& group, uint64_t window,
                                        uint64_t one_shot_most);
// Where parts of vectors begin: at packs of a kernel, of the smallest elements.
inline constexpr uint64_t kPortionUnit = 16;

}  // namespace banyan
