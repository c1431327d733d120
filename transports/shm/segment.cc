// Sealed memfds: creating them, and checking those that come from a peer.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>

namespace banyan::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string cause(int error) {
  return std::generic_category().message(error);
}

Status failed(std::string_view what, size_t bytes, int error) {
  return {Code::kSystem,
          fmt::format("{} of {} bytes of shared memory: {}", what, bytes, cause(error))};
}

// MFD_NOEXEC_SEAL is younger than the headers of Debian 12; kernels that know it may insist on it.
Descriptor open_memory() {
  constexpr unsigned kNoExecSeal = 8;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor memory(memfd_create("banyan", kFlags | kNoExecSeal));
  if (!memory.valid() && errno == EINVAL) memory = Descriptor(memfd_create("banyan", kFlags));
  return memory;
}

// Beyond this limit ftruncate would raise SIGXFSZ.
bool exceeds_file_limit(size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

// Signals may keep a part of a reservation from coming until then.
TimePoint patience_before(TimePoint deadline) {
  constexpr Clock::duration kMost = std::chrono::seconds(10);
  const TimePoint now = Clock::now();
  return now + std::clamp((deadline - now) / 2, Clock::duration::zero(), kMost);
}

struct Slots {
  uint32_t count, bytes;
};

// The slots of the collective lane. A core takes a line sooner from the cache that all share than
// from the own one of another core, in which it would still be if the rings were shorter. Of many
// short slots more messages pass before the first comes round again.
Slots slots_for_collectives(size_t peers) {
  constexpr size_t kRings = size_t{2} << 20;  // to all peers, which no core's own cache holds
  constexpr size_t kSlotsLeast = 8;
  const uint32_t bytes = peers <= 1 ? 16 << 10 : 32 << 10;
  const size_t count = std::bit_floor(kRings / (bytes * std::max<size_t>(peers, 1)));
  return {static_cast<uint32_t>(std::clamp<size_t>(count, kSlotsLeast, kSlotsMost)), bytes};
}

}  // namespace

Result<Mapping> Mapping::map(const Descriptor& memory, size_t bytes, Access access) {
  if (bytes == 0) return Mapping();
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (base == MAP_FAILED) return failed("mapping", bytes, errno);
  // A core dump needs no copy of what peers wrote.
  madvise(base, bytes, MADV_DONTDUMP);
  return Mapping(static_cast<std::byte*>(base), bytes);
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

int reserve(const Descriptor& memory, size_t offset, size_t bytes, TimePoint deadline) {
  size_t part = bytes;
  TimePoint give_up = patience_before(deadline);
  for (size_t done = 0; done < bytes;) {
    part = std::min(part, bytes - done);
    if (fallocate(memory.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(part)) ==
        0) {
      done += part;
      give_up = patience_before(deadline);
      continue;
    }
    if (errno != EINTR || Clock::now() >= give_up) return errno;
    part = std::max(Layout::pages(part / 2), kPageBytes);
  }
  return 0;
}

Result<Descriptor> create_memory(size_t bytes, Pages pages, TimePoint deadline) {
  Descriptor memory = open_memory();
  if (!memory.valid()) return failed("memfd_create", bytes, errno);
  if (exceeds_file_limit(bytes)) return failed("ftruncate", bytes, EFBIG);
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    return failed("ftruncate", bytes, errno);
  }
  const int error = pages == Pages::kReserved ? reserve(memory, 0, bytes, deadline) : 0;
  if (error == EINTR) {
    return Status(Code::kTimeout, fmt::format("fallocate of {} bytes of shared memory: signals "
                                              "interrupt it again and again",
                                              bytes));
  }
  if (error != 0) return failed("fallocate", bytes, error);
  // F_SEAL_SEAL comes later for memory that is yet to be closed to new writers.
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return failed("sealing", bytes, errno);
  }
  return memory;
}

Status seal(const Descriptor& memory, NewWriters writers) {
  // Linux 5.1; without it peers still map the memory read-only, they only could do otherwise.
  if (writers == NewWriters::kForbidden) fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SEAL) != 0) return failed("sealing", 0, errno);
  return {};
}

Result<size_t> checked_size(const Descriptor& memory, int peer) {
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kCorrupt,
                  fmt::format("rank {} sent shared memory that it could still shrink (seals {:#x}, "
                              "needed {:#x})",
                              peer, seals, kSeals));
  }
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return failed("fstat", 0, errno);
  return static_cast<size_t>(info.st_size);
}

Layout choose_layout(size_t peers) {
  constexpr size_t kMost = size_t{8} << 20;
  // A window of messages goes twice as fast where all of them find a slot.
  constexpr std::array<Slots, 5> kForWindows{
      {{64, 32 << 10}, {64, 16 << 10}, {64, 8 << 10}, {32, 8 << 10}, {16, 8 << 10}}};
  const Slots collectives = slots_for_collectives(peers);
  Layout layout{.peer_count = static_cast<uint32_t>(peers),
                .slots = {collectives.count, 4},
                .slot_bytes = {}};
  for (uint32_t bytes = collectives.bytes; bytes >= kSlotBytesLeast; bytes /= 2) {
    layout.slot_bytes = {bytes, std::max(bytes / 4, kSlotBytesLeast)};
    if (layout.segment_bytes() <= kMost) break;
  }
  for (const Slots& messages : kForWindows) {
    Layout better = layout;
    better.slots[1] = messages.count;
    better.slot_bytes[1] = messages.bytes;
    if (better.segment_bytes() <= kMost) return better;
  }
  return layout;
}

Result<Layout> checked_layout(const SegmentFacts& facts, size_t bytes, int peer, uint32_t epoch) {
  const auto refuse = [&](std::string_view what) {
    return Status(Code::kCorrupt, fmt::format("shared memory of rank {}: {}", peer, what));
  };
  if (facts.magic != kMagic) return refuse("not a segment of this version of the library");
  if (facts.rank != peer) return refuse(fmt::format("it says it is of rank {}", facts.rank));
  if (facts.epoch != epoch) return refuse("it belongs to another communicator");
  const Layout layout{
      .peer_count = facts.peer_count, .slots = facts.slots, .slot_bytes = facts.slot_bytes};
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (!std::has_single_bit(layout.slots[lane]) || layout.slots[lane] > kSlotsMost ||
        !std::has_single_bit(layout.slot_bytes[lane]) ||
        layout.slot_bytes[lane] < kSlotBytesLeast || layout.slot_bytes[lane] > kSlotBytesMost) {
      return refuse(fmt::format("{} slots of {} bytes in lane {}", layout.slots[lane],
                                layout.slot_bytes[lane], lane));
    }
  }
  if (layout.peer_count > kPeersMost || layout.segment_bytes() != bytes) {
    return refuse(fmt::format("{} bytes are not a segment for {} peers", bytes, layout.peer_count));
  }
  return layout;
}

}  // namespace banyan::shm
