// SPDX-License-Identifier: Apache-2.0

#include "algorithms/host_windows.h"

#include <utility>

#include "algorithms/generators.h"

namespace banyan {

bool may_have_host_windows(const Group& group, const Problem& problem, const Hierarchy& levels) {
  const Parameters& parameters = group.parameters;
  const bool in_order = parameters.intra == Phase::kOwn || parameters.intra == Phase::kDirect;
  return group.has_windows_inside && problem.collective == Collective::kAllreduce && in_order &&
         levels.largest_part(0) <= kMostWindows && parameters.intra_codec.is_exact() &&
         problem.op != ReduceOp::kPreMulSum && !problem.keeps_left && !problem.on_hosts &&
         problem.memory == MemoryKind::kHost &&
         problem.count * problem.element() >= kHostWindowsLeast;
}

HostWindows::HostWindows(ScheduleBuilder& builder, const Problem& problem, Group host,
                         uint64_t window)
    : problem_(problem),
      host_(std::move(host)),
      talk_(builder, problem, host_),
      place_bytes_(window / kHostWindowPlaces),
      width_(size_of(problem.accumulator())) {
  builder.set_window_ranks({host_.ranks.begin(), host_.ranks.end()});
}

// A part's values have the place of its accumulators, also where they are narrower.
Slice HostWindows::place_of(size_t index, Part part, uint64_t width) const {
  const uint64_t begin = index % kHostWindowPlaces * place_bytes_;
  return {Space::kWindow, begin + part.begin * width_, part.count * width};
}

void HostWindows::reduce(size_t index, const Segment& segment, Slice given, Slice sum) {
  if (rounds_.size() <= index) rounds_.resize(index + 1);
  Round& round = rounds_[index];
  const Part whole{0, segment.vector.count};
  const Part own = segment.cut.block(whole, host_.me);
  const StepIds free =
      index < kHostWindowPlaces ? StepIds() : rounds_[index - kHostWindowPlaces].done;
  StepIds there;
  if (given.size != 0)
    there = {talk_.add({.op = width_ == problem_.element() ? Op::kCopy : Op::kDecode,
                        .type = problem_.type,
                        .memory = MemoryKind::kDevice,
                        .src = given,
                        .src2 = {},
                        .dst = place_of(index, whole, width_)},
                       free)};
  talk_.tell_all(there);
  const StepIds ready = talk_.hear_all();
  if (own.count == 0) return;
  round.folded = {talk_.add({.op = Op::kFold,
                             .type = problem_.accumulator(),
                             .memory = MemoryKind::kDevice,
                             .src = place_of(index, own, width_),
                             .src2 = {},
                             .dst = sum},
                            joined(there, talk_.of_others(ready)))};
}

void HostWindows::gather(size_t index, const Segment& segment, Slice results) {
  Round& round = rounds_[index];
  const uint64_t element = problem_.element();
  const Part whole{0, segment.vector.count};
  const auto copy = [&](int place, Slice from, Slice to, const StepIds& after) {
    return talk_.add({.op = Op::kCopy,
                      .type = problem_.type,
                      .memory = MemoryKind::kDevice,
                      .peer = place == host_.me ? -1 : host_.at(place),
                      .src = from,
                      .src2 = {},
                      .dst = to},
                     after);
  };
  const Part own = segment.cut.block(whole, host_.me);
  StepIds shared;
  if (own.count != 0)
    shared = {copy(host_.me, elements(results, own, element), place_of(index, own, element),
                   round.folded)};
  talk_.tell_all(shared);
  const StepIds summed = talk_.hear_all();
  std::vector<StepIds> read(static_cast<size_t>(host_.size()), round.folded);
  talk_.for_others([&](int place) {
    const Part block = segment.cut.block(whole, place);
    if (block.count == 0) return;
    const auto at = static_cast<size_t>(place);
    read[at].push_back(copy(place, place_of(index, block, element),
                            elements(results, block, element), {summed[at]}));
  });
  talk_.for_others([&](int place) { talk_.tell(place, read[static_cast<size_t>(place)]); });
  talk_.for_others([&](int place) { round.done.push_back(talk_.hear(place)); });
}

}  // namespace banyan
