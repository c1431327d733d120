// Messages of sparse codecs say some values, and which those are, in the shortest of three forms:
//
//   list     uint32 count of each region of 65,536 values, then uint16 places in their regions,
//            ascending, then the values that are there
//   bitmap   one bit a value, the lowest first, a byte begun filled with zeros; then the values
//            whose bit is 1
//   dense    all values, +0 for those of which nothing is said
//
// If two are equally long, the one above is taken. Those of "sign" are words in lists. All is
// little-endian.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compression/codecs/bars.h"
#include "compression/loops.h"
#include "src/base/codec.h"

namespace banyan {
namespace {
namespace sparse {

// Flags of messages.
inline constexpr uint8_t kList = 0;
inline constexpr uint8_t kBitmap = 1;
inline constexpr uint8_t kDense = 2;
inline constexpr uint8_t kAllNan =
    4;  // nothing follows; of codecs that cannot say what is not finite

constexpr uint64_t divided_up(uint64_t count, uint64_t by) {
  return count / by + (count % by != 0 ? 1 : 0);
}

constexpr uint64_t counts_size(uint64_t count, uint64_t region) {
  return divided_up(count, region) * sizeof(uint32_t);
}

constexpr uint64_t bits_size(uint64_t count) {
  return divided_up(count, 8);
}

// Calls `function(region, here)` for each, with how many values it has.
template <typename Function>
bool for_each_region(uint64_t count, uint64_t region, Function function) {
  for (uint64_t start = 0; start < count; start += region) {
    const uint64_t rest = count - start;
    if (!function(start / region, rest < region ? rest : region)) return false;
  }
  return true;
}

inline uint32_t listed(const std::byte* lists, uint64_t region) {
  return load<uint32_t>(lists + region * sizeof(uint32_t));
}

inline uint64_t all_listed(const std::byte* lists, uint64_t count, uint64_t region) {
  uint64_t sum = 0;
  for_each_region(count, region, [&](uint64_t index, uint64_t) {
    sum += listed(lists, index);
    return true;
  });
  return sum;
}

// Whether a stranger's lists are what they should be: each has a place in the lower bits of 16, and
// then, behind all lists, a value of `value_size`.
inline bool are_lists(CodecMessage message, uint64_t count, uint64_t region, size_t value_size) {
  const uint64_t counts = counts_size(count, region);
  if (message.size < counts) return false;
  const uint64_t all = all_listed(message.bytes, count, region);
  if (message.size != counts + all * (sizeof(uint16_t) + value_size)) return false;
  const std::byte* next = message.bytes + counts;
  return for_each_region(count, region, [&](uint64_t index, uint64_t here) {
    const uint32_t places = listed(message.bytes, index);
    uint64_t least = 0;
    bool ascend = true;
    for (uint32_t i = 0; i < places; ++i, next += sizeof(uint16_t)) {
      const uint64_t place = load<uint16_t>(next) & (region - 1);
      ascend = ascend && place >= least;
      least = place + 1;
    }
    return ascend && least <= here;
  });
}

// As `sign` says values: places in the lower 15 bits of words, in regions of so many.
inline constexpr uint64_t kSignPlaces = 32'768;

// Whether a stranger's message is one of `sign`.
inline bool is_in_words(CodecMessage message, uint64_t count) {
  if (message.flags == kAllNan) return message.size == 0;
  return message.flags == 0 && are_lists(message, count, kSignPlaces, 0);
}

// Calls `function(start, words, index, here)` for words of one region's list, at most kTogether:
// the region's start, and how many words are before these.
template <typename Function>
void for_each_listed(const std::byte* lists, uint64_t count, uint64_t region, Function function) {
  const std::byte* words = lists + counts_size(count, region);
  uint64_t index = 0;
  for_each_region(count, region, [&](uint64_t number, uint64_t) {
    uint64_t rest = listed(lists, number);
    while (rest > 0) {
      const size_t here = rest < kTogether ? static_cast<size_t>(rest) : kTogether;
      uint16_t copy[kTogether];
      std::memcpy(copy, words + index * sizeof(uint16_t), here * sizeof(uint16_t));
      function(number * region, copy, index, here);
      index += here;
      rest -= here;
    }
    return true;
  });
}

struct Bits {
  uint64_t words[kTogether / 64] = {};

  bool has(size_t place) const { return (words[place / 64] >> place % 64 & 1) != 0; }
  void set(size_t place) { words[place / 64] |= uint64_t{1} << place % 64; }
  size_t count() const {
    size_t sum = 0;
    for (const uint64_t word : words) sum += static_cast<size_t>(__builtin_popcountll(word));
    return sum;
  }
  size_t list(uint16_t* places) const {
    size_t found = 0;
    for (size_t i = 0; i < kTogether / 64; ++i) {
      for (uint64_t word = words[i]; word != 0; word &= word - 1) {
        places[found] = static_cast<uint16_t>(i * 64 + static_cast<size_t>(__builtin_ctzll(word)));
        ++found;
      }
    }
    return found;
  }
};

// Calls `function(start, bits, here)` for kTogether values after the other.
template <typename Function>
bool for_each_bits(const std::byte* bitmap, uint64_t count, Function function) {
  return for_each_region(count, kTogether, [&](uint64_t index, uint64_t here) {
    Bits bits;
    std::memcpy(bits.words, bitmap + index * bits_size(kTogether), bits_size(here));
    return function(index * kTogether, bits, static_cast<size_t>(here));
  });
}

inline bool is_bitmap(CodecMessage message, uint64_t count, size_t value_size) {
  if (message.size < bits_size(count)) return false;
  uint64_t all = 0;
  const bool within =
      for_each_bits(message.bytes, count, [&](uint64_t, const Bits& bits, size_t here) {
        all += bits.count();
        return here % 8 == 0 || bits.words[here / 64] >> here % 64 == 0;
      });
  return within && message.size == bits_size(count) + all * value_size;
}

// Whether a stranger's message is in one of the forms, of values of `value_size` bytes.
inline bool is_in_forms(CodecMessage message, uint64_t count, size_t value_size) {
  switch (message.flags) {
    case kList: return are_lists(message, count, kRegion, value_size);
    case kBitmap: return is_bitmap(message, count, value_size);
    case kDense: return message.size == count * value_size;
    default: return false;
  }
}

}  // namespace sparse
}  // namespace
}  // namespace banyan
