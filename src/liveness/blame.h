// Who holds up everybody, by what the ranks of a host said last.
//
// A rank that waits says for whom, and says so again and again. Whoever follows these words from
// rank to rank ends at the one that all wait for. A rank that was stopped while it waited still
// seems to wait for somebody who has long sent what it wanted, so the words may lead in a circle;
// but it does not repeat them.
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

// `me` waits for `peer`; said[r] is what rank r said. The rank to blame: the first that has long
// been silent, else the end of the chain, else the one in the circle that has been silent longest.
int culprit_of(int me, int peer, std::span<const Waiting> said);

}  // namespace banyan
