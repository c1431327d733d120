// The lengths, in bytes, at which algorithms change how they do something, and the shapes that they
// give themselves: for their generators, and for the formulas of what they cost. Private to this
// folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace banyan {

// direct. Up to it, everybody sends everything to everybody and nothing is gathered afterwards.
inline constexpr uint64_t kOneShotBytes = 4096;
// direct. Up to it, copying a result costs less than a round of messages before it.
inline constexpr uint64_t kStagedBytes = 32 << 10;

// torus: how long its dimensions are, at most three, as equal as the factors of `ranks` let them
// be.
std::vector<int> torus_shape(int ranks);

// Up to so many ranks, agreement is one round of messages to all.
inline constexpr int kOneRoundMost = 8;

// leaders. In parts of more members trees have fewer rounds than a leader who speaks to each.
inline constexpr int kStarMost = 8;

// The chunks of a ring's broadcast.
inline uint64_t ring_chunks(uint64_t bytes) {
  constexpr uint64_t kChunkBytes = 64 * 1024;
  constexpr uint64_t kMost = 64;
  return std::clamp<uint64_t>(bytes / kChunkBytes, 1, kMost);
}

// The chunks of each of two trees.
inline uint64_t tree_chunks(uint64_t bytes) {
  constexpr uint64_t kChunkBytes = 64 * 1024;
  constexpr uint64_t kMost = 32;
  return std::clamp<uint64_t>(bytes / 2 / kChunkBytes, 1, kMost);
}

// hierarchical: the segments of a vector that the largest part cuts into so many shards. A shard of
// a segment is worth a message of its own from 1 MiB on.
inline uint64_t level_segments(uint64_t bytes, uint64_t shards) {
  constexpr uint64_t kShardBytes = 1 << 20;
  constexpr uint64_t kMost = 64;
  return std::clamp<uint64_t>(bytes / shards / kShardBytes, 1, kMost);
}

// hierarchical, to or from a root: at the top a chain of the parts, which has the least volume,
// where the segments are enough to fill it, else blocks. A chain is as long as its segments are, so
// they are shorter; those that are summed cost more (measured on four hosts of two and three of one
// to three).
struct RootedSegments {
  uint64_t count;
  bool chained;
};
inline RootedSegments rooted_segments(uint64_t bytes, uint64_t shards, uint64_t parts, bool sums) {
  const uint64_t shard_bytes = sums ? 64 * 1024 : 16 * 1024;
  constexpr uint64_t kMost = 64;
  const uint64_t count = std::clamp<uint64_t>(bytes / shards / shard_bytes, 1, kMost);
  if (parts == 2 || count >= parts) return {count, true};
  return {level_segments(bytes, shards), false};
}

// hierarchical: the segments of blocks, the longest of which has so many bytes.
inline uint64_t block_segments(uint64_t bytes) {
  constexpr uint64_t kBlockBytes = 1 << 20;
  constexpr uint64_t kMost = 16;
  return std::clamp<uint64_t>(bytes / kBlockBytes, 1, kMost);
}

// Vectors that no cache holds are cut, so that a rank finds in its cache what it has just summed
// when it passes that on. Shorter ones gain nothing, and lose by more messages (measured on two
// ranks).
inline uint64_t cache_segments(uint64_t bytes, uint64_t ranks) {
  constexpr uint64_t kCutLeast = 16 << 20;
  constexpr uint64_t kBlockBytes = 256 << 10;
  constexpr uint64_t kMost = 1024;
  if (bytes < kCutLeast) return 1;
  return std::clamp<uint64_t>(bytes / ranks / kBlockBytes, 1, kMost);
}

}  // namespace banyan
