// Runs the schedules of all ranks on symbols instead of numbers, with no network and no floating
// point.
//
// A symbol says how often each rank's contribution is in a byte run, which element it is, and in
// which order it was combined (the first as a sum, modulo 2^64, of numbers drawn for the ranks). So
// all of these are found:
//
//   a lost contribution, one counted twice, an element mixed with another
//   a read of memory nobody wrote, a write of user memory before agreement
//   an unmatched message, a deadlock
//   another order of reduction on another rank, or a message of a codec that says other values
//   another order than that of the ranks, where sums_in_rank_order()
//   a read of another rank's window that its owner may not have written, or may write again
//
// What a codec makes of values is a symbol of the codec and of these values, cut as they were. So
// nothing need be known of the codec but that it makes the same of the same.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"

namespace banyan {

struct Verification {
  bool ok = true;
  std::string reason;  // the first thing that is wrong
};

struct VerifyOptions {
  int slots = 1;      // messages that fit between two ranks; 0: rendezvous
  uint32_t seed = 0;  // of the order among steps that are ready
  // Sums are told apart by what is in them alone, which keeps them few on many ranks. That ranks
  // have the same bits is then shown by each element's sum being finished by one rank only.
  bool by_content = false;
  bool direct = false;  // messages may go straight from and to what is staged (staging.h)
  Branch branch = Branch::kOtherwise;  // by which the call goes on where it may go on by two
  std::span<const Branch> branches{};  // the same by rank, where they differ
};

// `schedules[r]` and `problems[r]` are rank r's (problems differ in in_place and in the lists of
// the `v` calls at most). Checks the postcondition of the collective on every rank.
Verification verify(std::span<const Schedule> schedules, std::span<const Problem> problems,
                    const VerifyOptions& options);

}  // namespace banyan
