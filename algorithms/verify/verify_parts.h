// The verifier has these parts: what a call means for memory, the checks that need no execution,
// and the execution.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"
#include "algorithms/verify/verify.h"
#include "algorithms/verify/verify_symbols.h"

namespace banyan {

// One collective call on all ranks.
struct VerifiedCall {
  std::span<const Schedule> schedules;
  std::span<const Problem> problems;

  VerifiedCall(std::span<const Schedule> all_schedules, std::span<const Problem> all_problems,
               bool messages_are_direct);

  bool direct = false;  // VerifyOptions::direct
  int ranks = 0;
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kInt8;         // T
  DataType accumulator = DataType::kInt8;  // A
  ReduceOp op = ReduceOp::kSum;
  bool reduces = false;       // a reduction: combining steps are allowed
  bool needs_decode = false;  // a contribution must be decoded before it is combined
  bool needs_encode = false;  // the result must be encoded

  bool has_codec() const { return needs_decode || needs_encode; }
  // Schedule::window_ranks of that rank, where that is empty all.
  std::vector<int32_t> window_ranks(int rank) const;
};

// The caller's memory on one rank.
struct Layout {
  uint64_t input_size = 0;
  uint64_t output_size = 0;
  Memory input;     // at the start
  Memory output;    // at the start
  Memory expected;  // of the output, at the end
};
Layout layout_of(const VerifiedCall& call, const Symbols& symbols, int rank);

// The fault of the lowest rank that has one. Of thousands, each core looks at its share.
ScheduleFault check_each(int ranks, const std::function<ScheduleFault(int)>& check);

std::string place_of(const VerifiedCall& call, int rank, uint32_t step);
uint64_t message_size(const VerifiedCall& call, const Step& step);
bool is_sending(Op op);
bool is_receiving(Op op);
// nullptr: there is none.
const Port* find_port(const Schedule& schedule, int peer, bool sending);

// What a step may have of codecs, wire slots and memory.
ScheduleFault check_codec(const VerifiedCall& call, int rank, const Step& step);
// Where the wire slots of a rank are, and that nothing else is there. Slices are within bounds.
ScheduleFault check_slots(const VerifiedCall& call, int rank);
// What the steps of a rank write to kLeft, and nothing else there, is in its table. Slices are
// within bounds.
ScheduleFault check_left(const VerifiedCall& call, int rank);
// Where that ends up which an encoding leaves there. Requires check_left().
Slice kept_at(const Schedule& schedule, Slice left);
// Checks dependencies, ports, sizes, types, bounds; then what the ports of different ranks say
// about each other.
ScheduleFault check_structure(const VerifiedCall& call, std::span<const Layout> layouts);
// Steps of a rank that touch the same bytes, one of them writing, wait for each other.
ScheduleFault check_races(const VerifiedCall& call, uint32_t seed);
// Runs everything, in an order drawn from the seed, and compares what is left with the layouts.
ScheduleFault execute(const VerifiedCall& call, std::vector<Layout> layouts, Symbols& symbols,
                      const VerifyOptions& options);

}  // namespace banyan
