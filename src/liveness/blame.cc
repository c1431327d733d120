// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/blame.h"

#include <algorithm>
#include <vector>

namespace banyan {
namespace {

// On a crowded machine a rank may come late with its word.
constexpr auto kSilence = 8 * kSaysAgain;

}  // namespace

int culprit_of(int me, int peer, std::span<const Waiting> said) {
  const auto word_of = [&](int rank) { return said[static_cast<size_t>(rank)]; };
  std::vector<int> chain{peer};
  for (;;) {
    const int last = chain.back();
    const int next = word_of(last).peer;
    if (next < 0 || word_of(last).age > kSilence) return last;
    if (next == me || std::find(chain.begin(), chain.end(), next) != chain.end()) break;
    chain.push_back(next);
  }
  return *std::max_element(chain.begin(), chain.end(),
                           [&](int a, int b) { return word_of(a).age < word_of(b).age; });
}

}  // namespace banyan
