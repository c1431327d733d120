// Finds which way long messages take between two ranks of a host: through slots, which are two
// copies by the ranks, or read from the sender's memory, which is one by the kernel. Neither is
// better everywhere. Kernels copy at a third of a core's speed on some machines. On others they
// read lines that another core has just written faster than slots hand them over. So it is
// measured.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/message_times.h"
#include "transports/shm/territory.h"

namespace banyan::shm {

// Tells what a message of that length takes, each way.
//
//   messages                        what a way through slots takes
//   of a collective: a rank sends   both copies, one after the other
//   and receives at the same time
//   between two, longer than a      the longer copy, since both ranks copy at the same time, and
//   slot                            the other copy of one slot
//
// What has just been written takes up to twice as long to read from afar as what has been read
// before. Both happen, buffers being written before a call or not, so their geometric mean counts.
struct WayTimes {
  uint64_t bytes = 0;
  uint64_t slots_ns = 0;
  uint64_t afar_ns = 0;
  uint64_t first_ns = 0;  // that mean is of this...
  uint64_t again_ns = 0;  // ...and this
  uint64_t write_ns = 0;  // what writing that memory anew takes
};

struct Rehearsed {
  AfarLeast least{};
  MessageTimes times{};  // of collectives
};

// Gives the time of a message between two through slots of so many bytes, from the times of its two
// copies: the first slot is filled alone, or the last emptied.
uint64_t overlapping_ns(uint64_t in, uint64_t out, uint64_t bytes, uint64_t slot);
// Gives the time of reading from afar, from those of what has just been written and of what is read
// again.
uint64_t afar_ns(uint64_t first, uint64_t again);

// Finds the shortest of these messages, in order of length, from which on reading from afar takes
// no longer; 0: none.
uint64_t choose_afar_least(std::span<const WayTimes> times);
// Does the same for collectives. What is too long for the caches cannot be measured while ranks
// meet; its second copy goes through memory. So it is 1 MiB where slots win with less, but not by a
// half.
uint64_t choose_afar_least_of_collectives(std::span<const WayTimes> times);

// Passes messages around the ranks of a host and times them. The result is for what `rank` reads
// from the one before it, and stands for all of its peers. `own` and `peers` all take part, and
// have met; `probe` is this rank's kProbeBytes. It gives up, with nothing, in each of these cases:
//
//   the others do not keep step within 50 ms
//   memory is not to be read
//   there are so many ranks that slots hold less than 32 KiB
std::optional<Rehearsed> rehearse(const Territory& own, std::span<const Neighbour> peers, int rank,
                                  std::span<std::byte> probe);

}  // namespace banyan::shm
