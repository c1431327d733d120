// At these lengths, in bytes, algorithms change how they do something, and these are the shapes
// that they give themselves: for their generators, and for the formulas of what they cost. Private
// to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "algorithms/problem.h"
#include "src/base/lengths.h"

namespace banyan {

// direct. Up to it, everybody sends everything to everybody and nothing is gathered afterwards.
inline constexpr uint64_t kOneShotBytes = 4096;
// direct. Up to it, copying a result costs less than a round of messages before it.
inline constexpr uint64_t kStagedBytes = 32 << 10;

// Says how long the dimensions of torus are: as the call says, else at most three, as equal as the
// factors of `ranks` let them be.
std::vector<int> torus_shape(int ranks, const Parameters& parameters = {});

// Up to so many ranks, agreement is one round of messages to all.
inline constexpr int kOneRoundMost = 8;

// leaders. In parts of more members trees have fewer rounds than a leader who speaks to each.
inline constexpr int kStarMost = 8;

// Gives what a call's parameters say of a length; 0: nothing, so that the algorithm's own counts.
// It is at least an element, so that no block of a segment is empty. However short, there are never
// more segments than the most that a function below says.
inline uint64_t given_length(const Parameters& parameters, const Problem& problem) {
  return parameters.segment == 0 ? 0 : std::max<uint64_t>(parameters.segment, problem.element());
}
inline uint64_t pieces_of(uint64_t bytes, uint64_t own_length, uint64_t given, uint64_t most) {
  return std::clamp<uint64_t>(bytes / (given != 0 ? given : own_length), 1, most);
}

// The chunks of a ring's broadcast.
inline uint64_t ring_chunks(uint64_t bytes, uint64_t given = 0) {
  return pieces_of(bytes, 64 * 1024, given, 64);
}

// The chunks of each of two trees.
inline uint64_t tree_chunks(uint64_t bytes, uint64_t given = 0) {
  return pieces_of(bytes / 2, 64 * 1024, given, 32);
}

// hierarchical cuts a vector into these segments, which the largest part cuts into so many shards.
// A shard of a segment is worth a message of its own from 1 MiB on.
inline constexpr uint64_t kMostLevelSegments = 64;
inline uint64_t level_segments(uint64_t bytes, uint64_t shards, uint64_t given = 0) {
  return pieces_of(bytes / shards, 1 << 20, given, kMostLevelSegments);
}

// hierarchical, to or from a root, makes at the top a chain of the parts, which has the least
// volume, where the segments are enough to fill it, else blocks. A chain is as long as its segments
// are, so they are shorter. Those that are summed cost more (measured on four hosts of two and
// three of one to three).
struct RootedSegments {
  uint64_t count;
  bool chained;
};
inline RootedSegments rooted_segments(uint64_t bytes, uint64_t shards, uint64_t parts, bool sums,
                                      uint64_t given = 0) {
  const uint64_t shard_bytes = sums ? 64 * 1024 : 16 * 1024;
  const uint64_t count = pieces_of(bytes / shards, shard_bytes, given, kMostLevelSegments);
  if (parts == 2 || count >= parts) return {count, true};
  return {level_segments(bytes, shards, given), false};
}

// hierarchical: the segments of blocks, the longest of which has so many bytes.
inline constexpr uint64_t kMostBlockSegments = 16;
inline uint64_t block_segments(uint64_t bytes, uint64_t given = 0) {
  return pieces_of(bytes, 1 << 20, given, kMostBlockSegments);
}

// Vectors that no cache holds are cut, so that a rank finds in its cache what it has just summed
// when it passes that on. Shorter ones gain nothing, and lose by more messages (measured on two
// ranks); they are cut where the call says so.
inline uint64_t cache_segments(uint64_t bytes, uint64_t ranks, uint64_t given = 0) {
  if (bytes < kUncachedLeast && given == 0) return 1;
  return pieces_of(bytes / ranks, 256 << 10, given, 1024);
}

}  // namespace banyan
