// Checks that kLeft is only written, by encodings, each element once, and that the table of a
// schedule says just that.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

bool in_left(Slice slice) {
  return slice.size != 0 && slice.space == Space::kLeft;
}

ScheduleFault check_step(const Problem& problem, const Step& step) {
  if (in_left(step.src) || in_left(step.src2) || in_left(step.dst))
    return "takes what is left over for other memory";
  if (in_left(step.dst2) && !problem.keeps_left) return "keeps what is left, but the call does not";
  if (step.dst2.size != 0 && problem.keeps_left && !in_left(step.dst2))
    return "does not keep what is left where the call wants it";
  return {};
}

}  // namespace

ScheduleFault check_left(const VerifiedCall& call, int rank) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  const Problem& problem = call.problems[static_cast<size_t>(rank)];
  std::vector<Slice> written;
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const Step& each = schedule.steps[step];
    ScheduleFault fault = check_step(problem, each);
    if (!fault.empty()) return place_of(call, rank, step) + ": " + fault;
    if (in_left(each.dst2)) written.push_back(each.dst2);
  }
  std::vector<Slice> listed;
  for (const auto& [place, elements] : schedule.lefts) {
    if (elements.count > problem.count || elements.begin > problem.count - elements.count)
      return "rank " + std::to_string(rank) + ": its table of what is left has elements from " +
             std::to_string(elements.begin) + " on, which end behind the vector";
    listed.push_back({Space::kLeft, place * sizeof(float), elements.count * sizeof(float)});
  }
  for (std::vector<Slice>* each : {&written, &listed})
    std::sort(each->begin(), each->end(),
              [](Slice left, Slice right) { return left.offset < right.offset; });
  if (written != listed)
    return "rank " + std::to_string(rank) + ": its table of what is left has not what is written";
  for (size_t index = 1; index < written.size(); ++index)
    if (written[index].offset < written[index - 1].end())
      return "rank " + std::to_string(rank) + ": byte " + std::to_string(written[index].offset) +
             " of what is left is written twice";
  return {};
}

}  // namespace banyan
