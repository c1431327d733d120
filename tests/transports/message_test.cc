// Copies of every kind copy, and delivering past the caches gives what delivering gives.
// SPDX-License-Identifier: Apache-2.0

#include "transports/message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/base/copy.h"
#include "src/base/copy_far.h"

namespace banyan::message_test {
namespace {

std::vector<std::byte> numbered(size_t bytes, unsigned salt) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 7 + salt);
  return result;
}

TEST(CopyFar, IsMemcpyAtEveryAlignmentAndLength) {
  const std::vector<std::byte> from = numbered(600, 1);
  for (size_t at = 0; at < 65; ++at)
    for (const size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 300, 511}) {
      std::vector<std::byte> to(600, std::byte{0xee}), expected = to;
      std::copy_n(from.begin() + 3, bytes, expected.begin() + static_cast<ptrdiff_t>(at));
      copy_far(to.data() + at, from.data() + 3, bytes);
      ASSERT_EQ(to, expected) << bytes << " bytes at " << at;
    }
}

// Around 1 KiB and around the places, modulo a page, where it does not leave it to the C library.
TEST(CopyBytes, IsMemmoveAtEveryAlignmentAndLength) {
  const std::vector<std::byte> all = numbered(17000, 1);
  for (const size_t page : {0, 4096, 8192})
    for (const size_t behind : {0, 1, 16, 31, 33, 63, 64, 65, 4095})
      for (const size_t bytes : {0, 1, 63, 1023, 1024, 1025, 1087, 1088, 2000, 4097}) {
        const size_t from = 130, at = from + page + behind;
        for (const bool forwards : {true, false}) {
          std::vector<std::byte> expected = all, memory = all;
          const size_t source = forwards ? from : at, target = forwards ? at : from;
          std::memmove(expected.data() + target, all.data() + source, bytes);
          copy_bytes(memory.data() + target, memory.data() + source, bytes);
          ASSERT_EQ(memory, expected) << bytes << " bytes from " << source << " to " << target;
        }
      }
}

// 16-bit numbers of the message are added to 32-bit ones.
void add_wide(void* dst, const void* local, const void* incoming, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t left = 0;
    uint16_t right = 0;
    std::memcpy(&left, static_cast<const std::byte*>(local) + 4 * i, sizeof left);
    std::memcpy(&right, static_cast<const std::byte*>(incoming) + 2 * i, sizeof right);
    left += right;
    std::memcpy(static_cast<std::byte*>(dst) + 4 * i, &left, sizeof left);
  }
}

TEST(Deliver, FarIsDeliverElsewhere) {
  for (const size_t count : {0, 1, 31, 2047, 2048, 2049, 5000})
    for (const size_t first : {0, 1, 4096})
      for (const bool combines : {false, true})
        for (const bool in_place : {false, true}) {
          const size_t room = 4 * (first + count) + 1;
          const std::vector<std::byte> message = numbered(2 * count, 5);
          const std::vector<std::byte> local = numbered(room, 9);
          std::vector<std::vector<std::byte>> results;
          for (const bool far : {false, true}) {
            std::vector<std::byte> memory = in_place ? local : std::vector<std::byte>(room);
            Transfer transfer;
            transfer.memory = memory.data();
            transfer.usage = {.output_bytes = kUncachedLeast, .is_result = far};
            ASSERT_EQ(bypasses_caches(transfer), far);
            if (combines) {
              transfer.combine = add_wide;
              transfer.local = in_place ? memory.data() : local.data();
              transfer.message_element = 2;
              transfer.local_element = 4;
            }
            deliver(transfer, 2 * first, message.data(), message.size());
            results.push_back(std::move(memory));
          }
          ASSERT_EQ(results[0], results[1]) << count << " from " << first;
        }
}

TEST(Judge, ShorterMessagesAreTakenByWhoSaysSo) {
  constexpr uint32_t kEpoch = 7;
  constexpr uint64_t kLongest = 100;
  for (const bool up_to : {false, true})
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kLongest - 1, kLongest, kLongest + 1,
                                 uint64_t{1} << 63, UINT64_MAX}) {
      Transfer receive;
      receive.direction = Direction::kRecv;
      receive.envelope = {.call = 1, .epoch = kEpoch, .bytes = kLongest, .signature = {}};
      receive.up_to = up_to;
      Envelope seen = receive.envelope;
      seen.bytes = bytes;
      const bool taken = up_to ? bytes <= kLongest : bytes == kLongest;
      EXPECT_EQ(judge(seen, receive, kEpoch), taken ? Judgement::kAccept : Judgement::kMismatch)
          << bytes;
      EXPECT_EQ(judge(seen, receive, kEpoch + 1), Judgement::kDrop);
      seen.call += 1;
      EXPECT_EQ(judge(seen, receive, kEpoch), Judgement::kMismatch) << bytes;
      seen.signature.op = static_cast<ReduceOp>(200);
      EXPECT_EQ(judge(seen, receive, kEpoch), Judgement::kCorrupt);
      seen.signature = {};
      seen.signature.memory = static_cast<MemoryKind>(4);
      EXPECT_EQ(judge(seen, receive, kEpoch), Judgement::kCorrupt);
    }
}

}  // namespace
}  // namespace banyan::message_test
