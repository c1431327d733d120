// Finds who holds up everybody, by what the ranks of a host said last.
//
// A rank that waits says for whom, and says so again and again. Whoever follows these words from
// rank to rank ends at the one that all wait for. A rank that was stopped while it waited still
// seems to wait for somebody who has long sent what it wanted. So the words may lead in a circle;
// but a stopped rank does not repeat them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <span>

namespace banyan {

struct Waiting {
  int peer = -1;                     // -1: it waits for nobody
  std::chrono::milliseconds age{0};  // since it last said so
};

// A rank that waits repeats it at least this often.
inline constexpr std::chrono::milliseconds kSaysAgain{50};

// `me` waits for `peer`; said[r] is what rank r said. The result is the rank to blame:
//
//   1. the first of the chain that has long been silent
//   2. else the end of the chain
//   3. else, in a circle, the one that has been silent longest
int culprit_of(int me, int peer, std::span<const Waiting> said);

}  // namespace banyan
