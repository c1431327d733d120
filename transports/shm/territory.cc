// How ranks of one host come to see each other's memory.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/territory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <random>

#include "src/base/bell.h"
#include "src/base/system_error.h"
#include "src/base/touch_pages.h"
#include "transports/shm/rehearsal.h"

namespace banyan::shm {
namespace {

constexpr size_t kDescriptors = 3;  // that each rank sends to each peer: segment, heap, doorbell

// Where threads of one process find each other's territories while they connect.
struct Directory {
  std::mutex mutex;
  std::map<int, std::shared_ptr<const Territory>> by_rank;
};

struct Own {
  std::shared_ptr<Territory> territory;
  std::vector<uint64_t> probe;  // the memory that peers try to read
  Descriptor segment;
  Descriptor heap;
  Descriptor doorbell;
};

// Address space of a process is 2^47 bytes, and every rank maps the heaps of all its peers.
size_t heap_capacity(size_t peers) {
  constexpr size_t kAddressSpace = size_t{1} << 46;
  return std::min(physical_memory(), kAddressSpace / (peers + 1));
}

// A word that no other process has at that place.
std::vector<uint64_t> make_probe() {
  std::random_device device;
  std::vector<uint64_t> probe(kProbeBytes / sizeof(uint64_t));
  probe.front() = uint64_t{device()} << 32 | device();
  return probe;
}

// Without a heap everything works, only allocate() does not: then an empty memory is passed on.
Result<Descriptor> make_heap(Territory& territory, size_t peers, const Log& log) {
  auto heap = Heap::create(heap_capacity(peers));
  if (heap.ok()) {
    territory.heap = std::move(*heap);
    Descriptor copy(fcntl(territory.heap.memory().get(), F_DUPFD_CLOEXEC, 0));
    if (copy.valid()) return copy;
    return system_error("copying a descriptor", errno);
  }
  BANYAN_LOG(log, Subsystem::kNet, LogLevel::kInfo, "shm: no memory that peers read in place: {}",
             heap.status().message());
  auto empty = create_memory(0, Pages::kSparse);
  if (empty.ok()) BANYAN_TRY(seal(*empty, NewWriters::kAllowed));
  return empty;
}

void write_segment(Territory& territory, Wiring& wiring, std::span<const int> peers,
                   std::span<const uint64_t> probe) {
  auto* header = new (territory.segment.base()) SegmentHeader;
  header->facts.rank = wiring.rank();
  header->facts.epoch = wiring.epoch();
  header->facts.peer_count = territory.layout.peer_count;
  header->facts.slots = territory.layout.slots;
  header->facts.slot_bytes = territory.layout.slot_bytes;
  header->facts.heap_bytes = territory.heap.bytes();
  header->facts.probe_address = reinterpret_cast<uintptr_t>(probe.data());
  header->facts.probe_value = probe.front();
  header->facts.fences = territory.fences ? 1 : 0;
  if (!peers.empty()) {
    std::memcpy(territory.segment.base() + territory.layout.ranks_at(), peers.data(),
                peers.size_bytes());
  }
}

Result<Own> make_own(Wiring& wiring, std::span<const int> peers) {
  Own own;
  own.territory = std::make_shared<Territory>();
  Territory& territory = *own.territory;
  territory.layout = choose_layout(peers.size());
  own.probe = make_probe();
  territory.fences = take_part_in_far_fences() && fence_from_afar();
  const size_t bytes = territory.layout.segment_bytes();
  auto segment = create_memory(bytes, Pages::kReserved, wiring.deadline());
  BANYAN_TRY(segment.status());
  auto mapping = Mapping::map(*segment, bytes, Mapping::Access::kReadWrite);
  BANYAN_TRY(mapping.status());
  touch_pages(mapping->base(), bytes, Touch::kWrite);
  BANYAN_TRY(seal(*segment, NewWriters::kForbidden));
  territory.segment = std::move(*mapping);
  own.segment = std::move(*segment);
  auto heap = make_heap(territory, peers.size(), wiring.log());
  BANYAN_TRY(heap.status());
  own.heap = std::move(*heap);
  Result<Descriptor> doorbell = make_bell();
  BANYAN_TRY(doorbell.status());
  own.doorbell = std::move(*doorbell);
  write_segment(territory, wiring, peers, own.probe);
  return own;
}

// Index of `self` in the list of ranks of a peer's segment.
std::optional<size_t> find_self(const std::byte* ranks, uint32_t count, int self) {
  for (uint32_t i = 0; i < count; ++i) {
    int32_t rank = -1;
    std::memcpy(&rank, ranks + i * sizeof rank, sizeof rank);
    if (rank == self) return i;
  }
  return std::nullopt;
}

void map_heap(Neighbour& neighbour, const Descriptor& heap, size_t bytes, const Log& log) {
  auto mapping = Mapping::map(heap, bytes, Mapping::Access::kReadWrite);
  if (!mapping.ok()) {
    BANYAN_LOG(log, Subsystem::kNet, LogLevel::kInfo,
               "shm: memory of rank {} is not read in place: {}", neighbour.rank,
               mapping.status().message());
    return;
  }
  neighbour.heap_mapping = std::move(*mapping);
  neighbour.heap = {neighbour.heap_mapping.base(), neighbour.heap_mapping.bytes()};
}

// A thread's territory under its own addresses instead of a second mapping.
void use_shared(Neighbour& neighbour, Directory& directory) {
  const std::scoped_lock lock(directory.mutex);
  const auto found = directory.by_rank.find(neighbour.rank);
  if (found == directory.by_rank.end()) return;
  const auto offset = neighbour.block - neighbour.segment;
  neighbour.shared = found->second;
  neighbour.segment = neighbour.shared->segment.base();
  neighbour.block = neighbour.segment + offset;
  neighbour.segment_mapping = Mapping();
  const Heap& heap = neighbour.shared->heap;
  neighbour.heap = {heap.base(), heap.bytes()};
  neighbour.heap_mapping = Mapping();
}

Result<Neighbour> receive(Wiring& wiring, int peer, bool own_fences, Directory* directory) {
  auto received = wiring.receive_descriptors(peer, kDescriptors);
  BANYAN_TRY(received.status());
  auto neighbour =
      inspect((*received)[0], (*received)[1], peer, wiring.rank(), wiring.epoch(), wiring.log());
  BANYAN_TRY(neighbour.status());
  neighbour->doorbell = std::move((*received)[2]);
  neighbour->owner.pid = wiring.peer(peer).pid;
  if (wiring.peer(peer).same_process && directory != nullptr) use_shared(*neighbour, *directory);
  if (neighbour->shared == nullptr)
    touch_pages(neighbour->block, neighbour->layout.block_bytes(), Touch::kRead);
  SegmentFacts facts;
  std::memcpy(&facts, neighbour->segment, sizeof facts);
  neighbour->fence = own_fences && facts.fences == 1 ? Fence::kFar : Fence::kNear;
  neighbour->reads_memory = can_read(neighbour->owner, facts.probe_address, facts.probe_value);
  return neighbour;
}

// Ranks that share cores sleep often, which is dear with far fences. All ranks of a host come to
// the same conclusion, also where some of them have others as peers.
void fence_nearby(Territory& own, std::span<Neighbour> peers) {
  own.fences = false;
  for (Neighbour& peer : peers) peer.fence = Fence::kNear;
}

// What was measured counts, but for what BANYAN_SINGLE_COPY has to say.
Rehearsed ways_of(Wiring& wiring, Own& own, std::span<const Neighbour> peers) {
  const std::span probe(own.probe);
  Rehearsed ways = rehearse(*own.territory, peers, wiring.rank(), std::as_writable_bytes(probe))
                       .value_or(Rehearsed{.least = {kAfarLeast, kAfarLeast}});
  if (const auto said = wiring.single_copy_least()) ways.least = {*said, *said};
  return ways;
}

// The cores that this thread may run on; all there can be where the kernel does not say.
cpu_set_t own_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) std::memset(&cores, 0xff, sizeof cores);
  return cores;
}

// They share this rank's cores, by whatever transport they are reached.
std::vector<int> others_on_this_host(const Wiring& wiring) {
  std::vector<int> ranks;
  for (int rank = 0; rank < wiring.size(); ++rank)
    if (rank != wiring.rank() && wiring.peer(rank).same_host) ranks.push_back(rank);
  return ranks;
}

}  // namespace

Result<Neighbour> inspect(const Descriptor& segment, const Descriptor& heap, int peer, int self,
                          uint32_t epoch, const Log& log) {
  auto bytes = checked_size(segment, peer);
  BANYAN_TRY(bytes.status());
  auto heap_bytes = checked_size(heap, peer);
  BANYAN_TRY(heap_bytes.status());
  if (*bytes < sizeof(SegmentHeader)) {
    return Status(Code::kCorrupt, fmt::format("shared memory of rank {} has {} bytes, a segment "
                                              "has at least {}",
                                              peer, *bytes, sizeof(SegmentHeader)));
  }
  auto mapping = Mapping::map(segment, *bytes, Mapping::Access::kRead);
  BANYAN_TRY(mapping.status());
  SegmentFacts facts;
  std::memcpy(&facts, mapping->base(), sizeof facts);
  auto layout = checked_layout(facts, *bytes, peer, epoch);
  BANYAN_TRY(layout.status());
  const auto index = find_self(mapping->base() + layout->ranks_at(), layout->peer_count, self);
  if (!index) {
    return Status(Code::kCorrupt,
                  fmt::format("shared memory of rank {} has nothing for rank {}", peer, self));
  }
  Neighbour neighbour;
  neighbour.rank = peer;
  neighbour.layout = *layout;
  neighbour.segment_mapping = std::move(*mapping);
  neighbour.segment = neighbour.segment_mapping.base();
  neighbour.block = neighbour.segment + layout->blocks_at() + *index * layout->block_bytes();
  if (*heap_bytes > 0) map_heap(neighbour, heap, *heap_bytes, log);
  return neighbour;
}

Result<SharedCores> shared_cores(std::span<const Bytes> cores, std::span<const int> peers,
                                 int self) {
  cpu_set_t all;
  CPU_ZERO(&all);
  const auto add = [&](int rank) -> Status {
    const Bytes& bytes = cores[static_cast<size_t>(rank)];
    cpu_set_t theirs;
    if (bytes.size() != sizeof theirs)
      return {Code::kCorrupt, fmt::format("rank {} names its cores in {} bytes, not {}", rank,
                                          bytes.size(), sizeof theirs)};
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    CPU_OR(&all, &all, &theirs);
    return {};
  };
  BANYAN_TRY(add(self));
  for (const int peer : peers) BANYAN_TRY(add(peer));
  const int ranks = static_cast<int>(peers.size()) + 1;
  const int count = std::max(CPU_COUNT(&all), 1);
  return SharedCores{count, (ranks + count - 1) / count};
}

Result<SharedCores> tell_cores(Wiring& wiring, std::span<const int> peers) {
  const cpu_set_t cores = own_cores();
  const auto told = wiring.allgather(std::as_bytes(std::span(&cores, 1)));
  BANYAN_TRY(told.status());
  return shared_cores(*told, peers, wiring.rank());
}

Result<Neighbourhood> meet(Wiring& wiring, std::span<const int> peers) {
  auto own = make_own(wiring, peers);
  BANYAN_TRY(own.status());
  // Owners: the ranks that are threads of this process, while they connect.
  std::shared_ptr<Directory> directory;
  if (std::any_of(peers.begin(), peers.end(),
                  [&](int peer) { return wiring.peer(peer).same_process; })) {
    directory = std::static_pointer_cast<Directory>(wiring.share_in_process(
        "shm", [] { return std::static_pointer_cast<void>(std::make_shared<Directory>()); }));
    const std::scoped_lock lock(directory->mutex);
    directory->by_rank[wiring.rank()] = own->territory;
  }
  const std::array<int, kDescriptors> descriptors = {own->segment.get(), own->heap.get(),
                                                     own->doorbell.get()};
  Neighbourhood result;
  result.peers.resize(peers.size());
  // In rounds, since Linux limits how many descriptors of a user are under way.
  for (int round = 1; round < wiring.size(); ++round) {
    const int to = (wiring.rank() + round) % wiring.size();
    const int from = (wiring.rank() - round + wiring.size()) % wiring.size();
    if (std::find(peers.begin(), peers.end(), to) != peers.end())
      BANYAN_TRY(wiring.send_descriptors(to, descriptors));
    const auto place = std::find(peers.begin(), peers.end(), from);
    if (place == peers.end()) continue;
    auto neighbour = receive(wiring, from, own->territory->fences, directory.get());
    BANYAN_TRY(neighbour.status());
    result.peers[static_cast<size_t>(place - peers.begin())] = std::move(*neighbour);
  }
  Rehearsed ways = ways_of(wiring, *own, result.peers);
  const AfarLeast& least = ways.least;
  result.times = std::move(ways.times);
  for (size_t i = 0; i < result.peers.size(); ++i) {
    Neighbour& peer = result.peers[i];
    if (peer.reads_memory) peer.afar_least = least;
    peer.leads = peers[i] < wiring.rank();
    peer.weighs_ways = !wiring.single_copy_least().has_value();
    auto* abilities = reinterpret_cast<Abilities*>(own->territory->block(i) +
                                                   own->territory->layout.abilities_at());
    abilities->flags.store(peer.heap.empty() ? 0 : kReadsHeap, std::memory_order_release);
    for (size_t lane = 0; lane < least.size(); ++lane)
      abilities->afar_least[lane].store(peer.afar_least[lane], std::memory_order_release);
  }
  // From here on everybody knows what everybody can do.
  const Result<SharedCores> sharing = tell_cores(wiring, others_on_this_host(wiring));
  BANYAN_TRY(sharing.status());
  result.cores = *sharing;
  if (sharing->ranks_per_core > 1) fence_nearby(*own->territory, result.peers);
  if (directory != nullptr) {
    const std::scoped_lock lock(directory->mutex);
    directory->by_rank.erase(wiring.rank());
  }
  result.own = std::move(own->territory);
  result.doorbell = std::move(own->doorbell);
  return result;
}

}  // namespace banyan::shm
