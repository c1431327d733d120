// Ranks of one host, of several, read each other's memory of GPUs (peers.h) at the lowest level of
// a hierarchy: what a rank has summed of its host goes on to the other hosts from the host's
// memory, and what comes back goes to the others through windows. Each host decides by itself
// whether it can be so: to the other hosts it makes no difference. Private to this folder.
//
//   HostWindows windows(builder, problem, host);
//   windows.agree(input, output);
//   windows.reduce(0, {...});  // as a branch of what sums the segment by the host
//   ...                        // the sum goes up and comes down
//   windows.gather(0, {...});
//   windows.end();
//
// A window has room for a few segments at a time: that of one is free for another that begins after
// the first has come down on all ranks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/levels.h"
#include "algorithms/peer_talk.h"
#include "algorithms/problem.h"

namespace banyan {

// Segments that are under way at a time have their own places in a window.
inline constexpr uint64_t kHostWindowPlaces = 8;
// Shorter vectors take less time by the host: each rank has a copy to a GPU and one back besides
// the kernels.
inline constexpr uint64_t kHostWindowsLeast = uint64_t{256} << 10;

// Whether sums go by windows inside hosts where they can; the same on all ranks.
bool may_have_host_windows(const Group& group, const Problem& problem, const Hierarchy& levels);

class HostWindows {
 public:
  // `host`: the ranks of this host, two at least, in the order in which they are summed; it is
  // copied. `window`: bytes of a window.
  HostWindows(ScheduleBuilder& builder, const Problem& problem, Group host,
              uint64_t window = kWindowBytes);
  HostWindows(const HostWindows&) = delete;
  HostWindows& operator=(const HostWindows&) = delete;

  // Elements of a segment, counted from its first one, cut into blocks for the ranks of the host.
  struct Segment {
    Part vector;
    Cut cut;
  };

  void agree(Slice input, Slice output) { talk_.agree(input, output); }
  // What this rank gives, as elements, and where the sum of its own block goes, as accumulators.
  void reduce(size_t index, const Segment& segment, Slice given, Slice sum);
  // Where the results are, as elements: that of the own block is there.
  void gather(size_t index, const Segment& segment, Slice results);
  void end() { talk_.withdraw(); }

 private:
  // What has been said of a segment.
  struct Round {
    StepIds folded{};
    StepIds done{};  // of others, with this rank's window
  };

  Slice place_of(size_t index, Part part, uint64_t width) const;

  const Problem& problem_;
  const Group host_;
  PeerTalk talk_;
  uint64_t place_bytes_;
  uint64_t width_;  // of an accumulator
  std::vector<Round> rounds_;
};

}  // namespace banyan
