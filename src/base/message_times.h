// A transport finds what messages between the ranks of a host took when they met, and the cost
// model knows them by that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

namespace banyan {

// One message, the median of several.
struct MessageTime {
  uint64_t bytes = 0;
  double slots_us = 0;  // through shared slots: both copies
  double first_us = 0;  // read from the sender's memory, which it has just written
  double again_us = 0;  // the same memory read again
  double write_us = 0;  // the sender writes the memory that was read so
};

struct MessageTimes {
  uint64_t afar_least = 0;   // bytes of the shortest message of a collective that may be read so
  uint64_t cache_bytes = 0;  // of the last cache, which cores share; 0: not known
  double word_us = 0;        // from when one rank writes a word to when another one sees it
  std::vector<MessageTime> messages{};  // ascending by bytes; empty: nothing was measured
};

}  // namespace banyan
