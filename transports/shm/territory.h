// What ranks of one host share: making this rank's part, and meeting those of the peers.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/base/far_fence.h"
#include "src/base/message_times.h"
#include "transports/shm/heap.h"
#include "transports/shm/segment.h"
#include "transports/shm/single_copy.h"
#include "transports/transport.h"

namespace banyan::shm {

// A length for each lane; 0: never.
using AfarLeast = std::array<uint64_t, kLaneCount>;

// A territory is what this rank owns. Peers that are threads of this process use these very
// mappings; so do the sanitizers, which see one address for what is one memory.
struct Territory {
  Layout layout;
  Mapping segment;
  Heap heap;
  bool fences = false;  // has others pass fences, and passes theirs

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(segment.base()); }
  // Gives the block of the peer with that index.
  std::byte* block(size_t index) const {
    return segment.base() + layout.blocks_at() + index * layout.block_bytes();
  }
};

// A peer's territory as this rank sees it.
struct Neighbour {
  int rank = -1;
  Owner owner;
  bool reads_memory = false;
  AfarLeast afar_least{};      // from which length on we would rather do that
  bool weighs_ways = false;    // we look again and again which way is better
  bool leads = false;          // its rank is lower: both of us go the way that it wants
  Fence fence = Fence::kNear;  // before we look whether it sleeps
  Layout layout;               // checked
  const std::byte* segment = nullptr;
  const std::byte* block = nullptr;  // ours in the peer's segment
  std::span<std::byte> heap;         // empty: not mapped
  Descriptor doorbell;               // an eventfd of the peer
  Mapping segment_mapping;
  Mapping heap_mapping;
  std::shared_ptr<const Territory> shared;  // a thread's: owned by it and by its peers

  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(segment); }
};

// Cores that ranks may run on, and how many ranks there are for one, rounded up.
struct SharedCores {
  int count = 1;
  int ranks_per_core = 1;
};

struct Neighbourhood {
  std::shared_ptr<Territory> own;  // owners: this rank, and peers that are threads of this process
  Descriptor doorbell;
  std::vector<Neighbour> peers;  // in the order of the directory
  SharedCores cores;             // with all ranks of this host
  MessageTimes times;            // with the peer before it
};

// The last round of meet(), for a rank without peers, which may not be able to make memory.
Result<SharedCores> tell_cores(Wiring& wiring, std::span<const int> peers);

// Collective; see TransportKind::connect.
Result<Neighbourhood> meet(Wiring& wiring, std::span<const int> peers);

// Checks what came from a peer: its segment, its heap (of 0 bytes: none). It refuses what is not
// sealed, too short or inconsistent. `self` is this rank.
Result<Neighbour> inspect(const Descriptor& segment, const Descriptor& heap, int peer, int self,
                          uint32_t epoch, const Log& log);

// Tells how `self` and the ranks `peers` share cores. cores[r] has those of rank r, a cpu_set_t, as
// r told. kCorrupt: one of these is none.
Result<SharedCores> shared_cores(std::span<const Bytes> cores, std::span<const int> peers,
                                 int self);

}  // namespace banyan::shm
