// The algorithms are written out in one list. Each is a pure generator: every rank calls it with
// the same problem and its own place in the group, and gets its own steps.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/builder.h"
#include "algorithms/parameters.h"
#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan {

using Generator = void (*)(ScheduleBuilder&, const Group&, const Problem&);

struct Algorithm {
  std::string_view name;                                 // as BANYAN_ALGO has it
  std::string_view text;                                 // one sentence with its source
  std::array<Generator, kCollectiveCount> generators{};  // null where it does not fit
  bool by_levels = false;                                // goes by the group's hierarchy
  // By key: the collectives, as bits, in which it goes by that parameter.
  std::array<uint32_t, kParameterKeyCount> parameters{};
  uint32_t encoding = 0;  // the collectives, as bits, in which it goes by codecs

  bool fits(Collective collective) const {
    return generators[static_cast<size_t>(collective)] != nullptr;
  }
  bool takes(ParameterKey key) const { return parameters[static_cast<size_t>(key)] != 0; }
  bool takes(ParameterKey key, Collective collective) const {
    return (parameters[static_cast<size_t>(key)] >> static_cast<int>(collective) & 1) != 0;
  }
  bool encodes(Collective collective) const {
    return (encoding >> static_cast<int>(collective) & 1) != 0;
  }
};

// The list is recursive_doubling, circulant, ring, binomial, double_tree, bruck, pairwise,
// dissemination, direct, star, torus, hierarchical, leaders.
std::span<const Algorithm> algorithms();
// Its place in algorithms(), -1 if there is none.
int find_algorithm(std::string_view name);
// Tells whether the algorithm at that place does the collective; false for -1.
bool fits(int algorithm, Collective collective);
// Why it does not fit: "does no barrier".
std::string lack_of(int algorithm, Collective collective);
// Gives those of the parameters that the algorithm goes by in that collective. An algorithm by
// levels goes by none where there are no levels, but for the codec of the only one. Whether a codec
// may stand for the call's values at all is may_encode()'s to say.
Parameters effective(const Parameters& parameters, int algorithm, Collective collective,
                     const Hierarchy* hierarchy);
// "ring", "hierarchical(seg=1M)".
std::string text_of(int algorithm, const Parameters& parameters);

// Builds the fused schedule of this rank. Requires algorithm.fits(problem.collective), and of
// parameters with codecs also may_encode(problem) and algorithm.encodes(problem.collective). A
// group of one needs no algorithm: copies and conversions only.
Schedule build_schedule(const Problem& problem, const Group& group, const Algorithm& algorithm);
// A message of kSend and kRecv goes in pieces of so many bytes, so that a rank which stages can
// copy one while another is on its way. All ranks cut alike, whether they stage or not.
inline constexpr uint64_t kMessagePiece = uint64_t{4} << 20;
// The last piece, and no other, is shorter; it may be empty. So a rank whose message ends elsewhere
// than its peer's gets a piece of another length than it waits for.
Schedule build_message(const Problem& problem, uint64_t piece = kMessagePiece);

}  // namespace banyan
