// Shared memory against peers that lie, die or run out of things, and between real processes.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "src/base/clock.h"
#include "tests/transports/hostile_channel.h"
#include "tests/transports/slots.h"
#include "tests/transports/wiring.h"
#include "transports/shm/port.h"
#include "transports/shm/territory.h"

namespace banyan::shm::shm_test {
namespace {

using test::HostileChannel;
using test::kEpoch;

Envelope envelope_of(uint64_t bytes) {
  return {.call = 1, .epoch = kEpoch, .bytes = bytes, .signature = {}};
}

// A segment of rank 1 for rank 0, changed by `change` before it is sealed.
Descriptor segment_of_peer(const std::function<void(SegmentFacts&, int32_t&)>& change,
                           size_t extra = 0) {
  const Layout layout = choose_layout(1);
  const size_t bytes = layout.segment_bytes() + extra;
  auto memory = create_memory(bytes, Pages::kReserved);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  auto mapping = Mapping::map(*memory, bytes, Mapping::Access::kReadWrite);
  EXPECT_TRUE(mapping.ok());
  SegmentFacts facts;
  facts.rank = 1;
  facts.epoch = kEpoch;
  facts.peer_count = 1;
  facts.slots = layout.slots;
  facts.slot_bytes = layout.slot_bytes;
  int32_t self = 0;
  change(facts, self);
  std::memcpy(mapping->base(), &facts, sizeof facts);
  std::memcpy(mapping->base() + layout.ranks_at(), &self, sizeof self);
  EXPECT_TRUE(seal(*memory, NewWriters::kForbidden).ok());
  return std::move(*memory);
}

Descriptor no_heap() {
  auto memory = create_memory(0, Pages::kSparse);
  EXPECT_TRUE(memory.ok() && seal(*memory, NewWriters::kAllowed).ok());
  return std::move(*memory);
}

Code inspected(const Descriptor& segment, const Descriptor& heap) {
  return inspect(segment, heap, 1, 0, kEpoch, Log()).status().code();
}

TEST(ShmSegment, AGoodOneIsAccepted) {
  EXPECT_EQ(inspected(segment_of_peer([](SegmentFacts&, int32_t&) {}), no_heap()), Code::kOk);
}

TEST(ShmSegment, WhatAPeerCouldShrinkIsRefused) {
  const auto good = segment_of_peer([](SegmentFacts&, int32_t&) {});
  const Descriptor plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), 1 << 20), 0);
  EXPECT_EQ(inspected(plain, no_heap()), Code::kCorrupt);
  EXPECT_EQ(inspected(good, plain), Code::kCorrupt);
  ASSERT_EQ(fcntl(plain.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(inspected(plain, no_heap()), Code::kCorrupt) << "seals that could be added to";
  const Descriptor device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(inspected(device, no_heap()), Code::kCorrupt);
  EXPECT_EQ(inspected(Descriptor(), no_heap()), Code::kCorrupt);
}

TEST(ShmSegment, WrongFactsAreRefused) {
  using Change = std::function<void(SegmentFacts&, int32_t&)>;
  const std::vector<Change> changes = {
      [](SegmentFacts& facts, int32_t&) { facts.magic ^= 1; },
      [](SegmentFacts& facts, int32_t&) { facts.rank = 2; },
      [](SegmentFacts& facts, int32_t&) { facts.epoch += 1; },
      [](SegmentFacts& facts, int32_t&) { facts.peer_count = 0; },
      [](SegmentFacts& facts, int32_t&) { facts.peer_count = 2; },
      [](SegmentFacts& facts, int32_t&) { facts.peer_count = UINT32_MAX; },
      [](SegmentFacts& facts, int32_t&) { facts.slots[0] = 0; },
      [](SegmentFacts& facts, int32_t&) { facts.slots[1] = 3; },
      [](SegmentFacts& facts, int32_t&) { facts.slots[0] = 1U << 31; },
      [](SegmentFacts& facts, int32_t&) { facts.slots[0] *= 2; },
      [](SegmentFacts& facts, int32_t&) { facts.slot_bytes[0] = 0; },
      [](SegmentFacts& facts, int32_t&) { facts.slot_bytes[1] = 100; },
      [](SegmentFacts& facts, int32_t&) { facts.slot_bytes[0] = 1U << 31; },
      [](SegmentFacts&, int32_t& self) { self = 5; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(inspected(segment_of_peer(changes[i]), no_heap()), Code::kCorrupt) << i;
  }
  const auto good = [](SegmentFacts&, int32_t&) {};
  EXPECT_EQ(inspected(segment_of_peer(good, kPageBytes), no_heap()), Code::kCorrupt) << "too long";
  for (const size_t bytes : {size_t{0}, size_t{1}, sizeof(SegmentHeader)}) {
    auto shorter = create_memory(bytes, Pages::kSparse);
    ASSERT_TRUE(shorter.ok() && seal(*shorter, NewWriters::kAllowed).ok());
    EXPECT_EQ(inspected(*shorter, no_heap()), Code::kCorrupt) << bytes;
  }
}

TEST(ShmSegment, PeersCannotWriteOrResizeIt) {
  const auto segment = segment_of_peer([](SegmentFacts&, int32_t&) {});
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment.get(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(segment.get(), 0), 0);
  EXPECT_NE(fcntl(segment.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ShmSegment, StaysSmallForAnyNumberOfPeers) {
  EXPECT_EQ(choose_layout(1).slots[1], 64U) << "a window of messages";
  for (const size_t peers : {1, 2, 3, 7}) {
    const Layout layout = choose_layout(peers);
    EXPECT_GT(peers * layout.slots[0] * layout.slot_bytes[0], size_t{1} << 20) << peers;
  }
  for (size_t peers = 0; peers <= 1000; ++peers) {
    const Layout layout = choose_layout(peers);
    if (peers <= 500) {
      EXPECT_LE(layout.segment_bytes(), size_t{8} << 20) << peers;
    }
    EXPECT_LE(layout.segment_bytes(), size_t{16} << 20) << peers;
  }
}

TEST(ShmSlots, InconsistentMessagesAreCorrupt) {
  struct Case {
    SlotWord word;
    uint64_t bytes;
    uint64_t where;
  };
  const auto bad_address = reinterpret_cast<uint64_t>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const Case cases[] = {
      {{1, true, SlotKind::kInline, 0xffffff}, 8, 0},
      {{1, true, SlotKind::kInline, 7}, 8, 0},
      {{1, true, SlotKind::kInline, 25}, 25, 0},
      {{1, false, SlotKind::kInline, 8}, 8, 0},
      {{1, true, SlotKind::kFragment, 0}, 8, 0},
      {{1, true, SlotKind::kFragment, 512}, 100, 0},
      {{1, true, SlotKind::kFragment, 0xffffff}, 1 << 24, 0},
      {{1, true, SlotKind::kFragment, 0}, 0, 0},
      {{1, true, SlotKind::kHeap, 0}, 4097, 0},
      {{1, true, SlotKind::kHeap, 0}, 100, 3997},
      {{1, true, SlotKind::kHeap, 0}, 100, UINT64_MAX - 50},
      {{1, true, SlotKind::kMemory, 0}, 100, UINT64_MAX - 50},
      {{1, true, SlotKind::kMemory, 0}, 4096, bad_address},
      {{1, true, SlotKind::kPut, 0}, 100, 0},
      {{1, true, static_cast<SlotKind>(0), 8}, 8, 0},
      {{1, true, static_cast<SlotKind>(99), 8}, 8, 0},
  };
  for (const uint64_t longer : {0, 1, 1000})
    for (const Case& row : cases) {
      HostileChannel channel;
      const uint64_t longest = row.bytes + longer;
      std::vector<std::byte> memory(longest, std::byte{0x55});
      channel.write(0, row.word, envelope_of(row.bytes), row.where);
      EXPECT_EQ(channel.receive(envelope_of(longest), memory.data(), longer > 0), Code::kCorrupt)
          << static_cast<int>(row.word.kind) << " of " << row.bytes;
      EXPECT_EQ(memory, std::vector<std::byte>(longest, std::byte{0x55}));
      // The lane stays what it is: nobody knows where the next message begins.
      EXPECT_EQ(channel.receive(envelope_of(8), memory.data()), Code::kCorrupt);
    }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an envelope carries addresses as numbers
  munmap(reinterpret_cast<void*>(bad_address), 4096);
}

TEST(ShmSlots, AFragmentThatDoesNotFitIsCorrupt) {
  for (const uint64_t longest : {1000, 1001, 2000})
    for (const SlotWord word :
         {SlotWord{2, false, SlotKind::kFragment, 511},
          SlotWord{2, false, SlotKind::kFragment, 512},
          SlotWord{2, false, SlotKind::kFragment, 0xffffff},
          SlotWord{2, true, SlotKind::kFragment, 488}, SlotWord{2, false, SlotKind::kInline, 8}}) {
      HostileChannel channel;
      std::vector<std::byte> memory(longest, std::byte{0x55});
      channel.write(0, {1, true, SlotKind::kFragment, 512}, envelope_of(1000));
      EXPECT_EQ(channel.receive(envelope_of(longest), memory.data(), longest > 1000), Code::kBusy);
      channel.write(1, word, envelope_of(1000));
      channel.port.progress(channel.completions, channel.bounce);
      ASSERT_FALSE(channel.completions.empty());
      EXPECT_EQ(channel.completions.front().code, Code::kCorrupt);
      EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0}), 512);
    }
}

// Whatever else the slot says.
TEST(ShmSlots, MoreThanTheLongestIsAMismatchAndStays) {
  constexpr uint64_t kLongest = 100;
  for (const auto kind : {SlotKind::kInline, SlotKind::kFragment, SlotKind::kHeap,
                          SlotKind::kMemory, SlotKind::kPut, static_cast<SlotKind>(99)})
    for (const uint64_t bytes : {kLongest + 1, uint64_t{4096}, UINT64_MAX})
      for (const uint32_t in_slot : {0U, 24U, 100U, 101U, 512U}) {
        HostileChannel channel;
        std::vector<std::byte> memory(kLongest, std::byte{0x55});
        channel.write(0, {1, true, kind, in_slot}, envelope_of(bytes));
        for (int i = 0; i < 2; ++i)
          EXPECT_EQ(channel.receive(envelope_of(kLongest), memory.data(), true), Code::kMismatch)
              << static_cast<int>(kind) << " of " << bytes;
        EXPECT_EQ(memory, std::vector<std::byte>(kLongest, std::byte{0x55}));
        EXPECT_EQ(channel.port.peek(), envelope_of(bytes));
      }
}

// What lies in the owner's memory may be anything once its call has failed; what is in the slots
// stays what it was.
TEST(ShmSlots, WhatWasWithdrawnCountsForNothing) {
  std::vector<std::byte> source(4096), memory(4096);
  for (const SlotKind kind : {SlotKind::kHeap, SlotKind::kMemory, SlotKind::kInline}) {
    HostileChannel channel;
    const uint64_t bytes = kind == SlotKind::kInline ? 24 : 4096;
    const uint64_t where =
        kind == SlotKind::kMemory ? reinterpret_cast<uint64_t>(source.data()) : 0;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      channel.write(slot,
                    {.number = slot + 1,
                     .first = true,
                     .kind = kind,
                     .bytes = kind == SlotKind::kInline ? 24U : 0U},
                    envelope_of(bytes), where);
      channel.withdrawn = slot;
      const bool counts = slot == 0 || kind == SlotKind::kInline;
      EXPECT_EQ(channel.receive(envelope_of(bytes), memory.data()),
                counts ? Code::kOk : Code::kPeerLost)
          << static_cast<int>(kind) << ", " << slot;
    }
  }
}

TEST(ShmSlots, WhatCannotBePrintedIsNotShown) {
  HostileChannel channel;
  Envelope envelope = envelope_of(8);
  envelope.signature.collective = static_cast<Collective>(200);
  channel.write(0, {1, true, SlotKind::kInline, 8}, envelope);
  EXPECT_FALSE(channel.port.peek());
  std::array<std::byte, 8> memory{};
  EXPECT_EQ(channel.receive(envelope_of(8), memory.data()), Code::kCorrupt);
}

TEST(ShmSlots, NoiseHarmsNobody) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    HostileChannel channel;
    std::vector<std::byte> memory(2000);  // of its exact length, for the address sanitizer
    for (uint32_t slot = 0; slot < 4; ++slot) {
      Envelope envelope = envelope_of(random() % 4 == 0 ? random() : random() % 2000);
      if (random() % 4 == 0) envelope.epoch = static_cast<uint32_t>(random());
      channel.write(
          slot,
          {slot + 1, random() % 2 == 0, static_cast<SlotKind>(random() % 7),
           static_cast<uint32_t>(random() % 4 == 0 ? random() & 0xffffff : envelope.bytes % 600)},
          envelope, random() % 2 == 0 ? random() % 5000 : random());
    }
    for (int i = 0; i < 6; ++i) {
      const auto head = channel.port.peek();
      const Envelope expected = head && head->bytes <= 2000 ? *head : envelope_of(i);
      const bool up_to = random() % 2 == 0;
      channel.receive(up_to ? envelope_of(memory.size()) : expected, memory.data(), up_to);
      EXPECT_LE(channel.slots_read, 4U);
    }
  }
}

TEST(ShmSlots, APeerThatReadsWhatWasNotSentIsNotBelieved) {
  test::Slots slots(512);
  SendPort port(slots.channel(Lane::kMessage));
  Completions completions;
  std::array<std::byte, 8> memory{};
  Transfer transfer;
  transfer.envelope = envelope_of(8);
  transfer.memory = memory.data();
  port.push(transfer);
  port.progress(completions);
  EXPECT_TRUE(completions.empty());
  slots.slots_read = 1000;
  port.progress(completions);
  ASSERT_FALSE(completions.empty());
  EXPECT_EQ(completions.front().code, Code::kCorrupt);
}

// What the quick lane has sent is delivered once it is read; whoever asks to be told waits for no
// more.
TEST(ShmSlots, ADeliveryIsOnlyWaitedFor) {
  for (const uint64_t read : {1, 2}) {
    test::Slots slots(512);
    SendPort port(slots.channel(Lane::kMessage));
    std::array<std::byte, 8> memory{};
    Transfer transfer;
    transfer.envelope = envelope_of(8);
    transfer.memory = memory.data();
    EXPECT_TRUE(port.delivered());
    ASSERT_EQ(port.send_whole(memory.data(), transfer.envelope), SendPort::Whole::kSent);
    EXPECT_FALSE(port.delivered());
    port.push_delivery(5);
    Completions completions;
    EXPECT_FALSE(port.progress(completions)) << "it was sent before";
    EXPECT_TRUE(completions.empty());
    slots.slots_read = read;
    EXPECT_EQ(port.delivered(), read == 1) << "two were not sent";
    port.progress(completions);
    ASSERT_FALSE(completions.empty());
    EXPECT_EQ(completions.front().code, read == 1 ? Code::kOk : Code::kCorrupt);
    EXPECT_EQ(completions.front().cookie, 5U);
    EXPECT_TRUE(port.idle());
  }
}

// An offer is used only for this very message, within the heap; otherwise the message goes through
// its slots.
TEST(ShmSlots, AnOfferThatDoesNotFitIsNotUsed) {
  constexpr uint32_t kBytes = 64 << 10;
  constexpr size_t kHeapBytes = 2 * kBytes;
  Envelope another = envelope_of(kBytes);
  another.call = 77;
  struct Case {
    uint64_t number;
    Envelope envelope;
    uint64_t offset;
    bool fits;
  };
  const Case cases[] = {
      {1, envelope_of(kBytes), 512, true},
      {1, envelope_of(kBytes), kHeapBytes - kBytes, true},
      {1, envelope_of(kBytes), kHeapBytes - kBytes + 1, false},
      {1, envelope_of(kBytes), UINT64_MAX - 5, false},
      {0, envelope_of(kBytes), 0, false},
      {2, envelope_of(kBytes), 0, false},
      {1, envelope_of(kBytes - 1), 0, false},
      {1, another, 0, false},
  };
  for (const Case& row : cases) {
    test::Slots slots(kBytes);
    const std::vector<std::byte>& payload = slots.payload;
    std::vector<std::byte> heap_of_peer(kHeapBytes);
    Offer offer{};
    SendPort::Channel channel = slots.channel();
    channel.offer = &offer;
    channel.peer_heap = heap_of_peer;
    SendPort port(channel);
    Completions completions;
    const auto words = std::bit_cast<std::array<uint64_t, 4>>(row.envelope);
    for (size_t i = 0; i < words.size(); ++i) offer.envelope[i] = words[i];
    offer.offset = row.offset;
    offer.number = row.number;
    std::vector<std::byte> memory(kBytes);
    for (size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i % 251);
    Transfer transfer;
    transfer.envelope = envelope_of(kBytes);
    transfer.memory = memory.data();
    port.push(transfer);
    EXPECT_TRUE(port.progress(completions));
    EXPECT_EQ(unpack(slots.lines[0].word).kind, row.fits ? SlotKind::kPut : SlotKind::kFragment);
    // Whole pages only; what comes before and behind them is in the slot.
    std::vector<std::byte> expected(kHeapBytes);
    if (row.fits) {
      const PageCut cut = cut_at_pages(row.offset, kBytes);
      const auto pages = memory.begin() + cut.head;
      EXPECT_EQ((row.offset + cut.head) % kPageBytes, 0U);
      EXPECT_EQ(cut.pages % kPageBytes, 0U);
      EXPECT_LT(cut.rest(), 2 * kPageBytes);
      std::copy_n(pages, cut.pages, expected.begin() + row.offset + cut.head);
      EXPECT_TRUE(std::equal(memory.begin(), pages, payload.begin()));
      EXPECT_TRUE(std::equal(pages + cut.pages, memory.end(), payload.begin() + cut.head));
      EXPECT_EQ(unpack(slots.lines[0].word).bytes, cut.rest());
    }
    EXPECT_EQ(heap_of_peer, expected);
  }
}

// What a failure would have to take back stays short, and a slot must hold the rest of two pages.
TEST(ShmSlots, OnlySomeReceivesAreOffered) {
  auto heap = Heap::create(size_t{64} << 20);
  ASSERT_TRUE(heap.ok() && heap->bytes() > kOfferMost + kPageBytes);
  struct Case {
    uint64_t bytes;
    uint64_t at;
    uint32_t slot_bytes;
    CombineKernel combine;
    bool up_to;
    bool offered;
  };
  const CombineKernel adds = [](void*, const void*, const void*, size_t) {};
  const Case cases[] = {
      {kOfferLeast, 0, 64 << 10, nullptr, false, true},
      {kOfferMost, 100, 64 << 10, nullptr, false, true},
      {kOfferLeast - 1, 0, 64 << 10, nullptr, false, false},
      {kOfferMost + 1, 0, 64 << 10, nullptr, false, false},
      {kOfferLeast, 0, 4 << 10, nullptr, false, false},
      {kOfferLeast, 0, 64 << 10, adds, false, false},
      {kOfferLeast, 0, 64 << 10, nullptr, true, false},
  };
  for (const Case& row : cases) {
    Offer offer{};
    RecvPort::Channel channel;
    channel.slot_bytes = row.slot_bytes;
    channel.offer = &offer;
    channel.own_heap = &*heap;
    RecvPort port(channel);
    Transfer transfer;
    transfer.direction = Direction::kRecv;
    transfer.envelope = envelope_of(row.bytes);
    transfer.memory = heap->base() + row.at;
    transfer.combine = row.combine;
    transfer.up_to = row.up_to;
    port.push(transfer);
    EXPECT_EQ(offer.number, row.offered ? 1U : 0U) << row.bytes << " at " << row.at;
    const PageCut cut = cut_at_pages(row.at, row.bytes);
    EXPECT_EQ(port.offered().size(), row.offered ? cut.pages : 0U);
  }
}

size_t memory_held(const Heap& heap) {
  struct stat info {};
  fstat(heap.memory().get(), &info);
  return static_cast<size_t>(info.st_blocks) * 512;
}

TEST(ShmHeap, BlocksAreDistinctAndGoBack) {
  auto heap = Heap::create(size_t{256} << 20);
  ASSERT_TRUE(heap.ok()) << heap.status().message();
  EXPECT_EQ(memory_held(*heap), 0U);
  std::mt19937 random(3);
  struct Block {
    std::byte* memory;
    size_t bytes;
    std::byte mark;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 500; ++i) {
    if (blocks.size() < 20 || random() % 2 == 0) {
      const size_t bytes = random() % 100'000;
      auto memory = heap->allocate(bytes);
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 4096, 0U);
      const std::byte mark{static_cast<uint8_t>(i)};
      std::fill_n(*memory, bytes, mark);
      blocks.push_back({*memory, bytes, mark});
    } else {
      const size_t which = random() % blocks.size();
      const Block block = blocks[which];
      EXPECT_TRUE(std::all_of(block.memory, block.memory + block.bytes,
                              [&](std::byte b) { return b == block.mark; }));
      EXPECT_TRUE(heap->release(block.memory).ok());
      blocks[which] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) EXPECT_TRUE(heap->release(block.memory).ok());
  EXPECT_EQ(memory_held(*heap), 0U);
  EXPECT_TRUE(heap->allocate(heap->bytes()).ok()) << "all free blocks are one again";
  EXPECT_FALSE(heap->allocate(1).ok());
}

TEST(ShmHeap, KnowsWhatIsInIt) {
  auto heap = Heap::create(size_t{64} << 20);
  ASSERT_TRUE(heap.ok());
  const std::byte* base = heap->base();
  const size_t bytes = heap->bytes();
  EXPECT_EQ(heap->offset_of(base + 5, 10), 5U);
  EXPECT_EQ(heap->offset_of(base, bytes), 0U);
  EXPECT_FALSE(heap->offset_of(base + 1, bytes));
  EXPECT_FALSE(heap->offset_of(base - 1, 1));
  EXPECT_FALSE(heap->offset_of(base + bytes + 1, 0));
  EXPECT_FALSE(Heap().offset_of(base, 1));
}
}  // namespace
}  // namespace banyan::shm::shm_test
