// Ranks of one host, of several, read each other's memory of GPUs (peers.h) at the lowest level of
// a hierarchy: what a rank has summed of its host goes on to the other hosts from the host's
// memory, and what comes back goes to the others through windows. Each host decides by itself
// whether it can be so: to the other hosts it makes no difference. Private to this folder.
//
//   HostWindows windows(builder, problem, host);
//   windows.agree(input, output);
//   windows.reduce(blocks, sum);  // as a branch of what sums the blocks by the host
//   ...                           // the sum goes up and comes down
//   windows.gather(blocks);
//   windows.end();
//
// Or blocks go from each rank of the host to each other, and only what is for other hosts goes by
// the host's memory (exchange).
//
// A window has room for a few exchanges at a time, which all ranks of the host begin in the same
// order. The room of one is free for another once all have read what was there. Or something else
// moves what the ranks give each other (kDelegate): then each has room for what it gives to a sum,
// where that must be widened or scaled, and for what the others give to the own one.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/peer_talk.h"
#include "algorithms/problem.h"
#include "topology/hierarchy.h"

namespace banyan {

// Exchanges that are under way at a time have their own places in a window.
inline constexpr uint64_t kHostWindowPlaces = 8;
inline constexpr uint64_t kHostWindowPlace = kWindowBytes / kHostWindowPlaces;  // bytes
// Whether such a call goes by windows inside hosts where they can; the same on all ranks.
bool may_have_host_windows(const Group& group, const Problem& problem, const Hierarchy& levels);
// As it is for calls that may: hosts sum in their order, whichever way they go.
Group in_order_inside(const Group& group);
// Pieces into which so many elements are cut, at multiples of `unit`, for each to have a place in a
// window as accumulators.
int pieces_in_windows(const Problem& problem, uint64_t elements, uint64_t unit);

class HostWindows {
 public:
  // `host`: the ranks of this host, two at least, in the order in which they are summed; it is
  // copied.
  HostWindows(ScheduleBuilder& builder, const Problem& problem, Group host, bool delegates);
  HostWindows(const HostWindows&) = delete;
  HostWindows& operator=(const HostWindows&) = delete;

  void agree(Slice input, Slice output) { talk_.agree(input, output, delegates_); }
  // Blocks are those of the host's ranks, of one exchange, by place; some may be empty. They are
  // what this rank gives, as elements. The sum of its own block goes to `sum`, as accumulators.
  void reduce(const std::vector<Slice>& blocks, Slice sum);
  // The own one is there, and the others come there.
  void gather(const std::vector<Slice>& blocks);
  // Gives each rank of the host its block, the own one, too, and takes what each gives. All blocks
  // of all ranks are as long. Where a block is taken to a place of one that is given, both are of
  // the same rank. Requires that nothing delegates.
  void exchange(const std::vector<Slice>& given, const std::vector<Slice>& taken);
  void end() { talk_.withdraw(); }

 private:
  struct Exchange {
    Slice place;  // of the window
    // The exchange that had the place before; -1: none.
    int64_t before = -1;
    // This rank has read the windows of the others; of one where it reads nothing, in an exchange
    // before, at that place.
    std::vector<StepIds> read{};
    StepIds done{};  // others have read this rank's window
  };

  void reduce_delegated(const std::vector<Slice>& blocks, Slice sum);
  void gather_delegated(const std::vector<Slice>& blocks);
  Exchange& next();
  // Others hear that this rank has read their windows, and it hears the same of them.
  void finish(Exchange& exchange, std::vector<StepIds> read);
  // What must be done before this rank writes at the place.
  StepIds free(const Exchange& exchange) const;
  StepIds write(Slice from, Slice to, bool as_sums, const StepIds& after);
  // From the window of the rank at that place.
  StepIds read(int place, Slice from, Slice to, const StepIds& after);

  const Problem& problem_;
  const Group host_;
  PeerTalk talk_;
  const uint64_t width_;  // of an accumulator
  const bool converts_;   // elements to accumulators: they are widened, or scaled
  const bool delegates_;
  uint64_t reduced_ = 0;  // by delegates
  std::vector<Exchange> exchanges_;
};

// For a host with several ranks, in calls that may; null otherwise. The ranks of the host agree.
std::unique_ptr<HostWindows> host_windows(ScheduleBuilder& builder, const Group& group,
                                          const Problem& problem, const Hierarchy& levels);

}  // namespace banyan
