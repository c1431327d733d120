// Checks that kLeft is only written, by encodings, each element once, and that the table of a
// schedule says just that. Where the host cannot touch it, what an encoding of the host leaves is
// in scratch, and a copy takes it there.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

bool in_left(Slice slice) {
  return slice.size != 0 && slice.space == Space::kLeft;
}

bool takes_to_left(const Problem& problem, const Step& step) {
  return problem.staging.left && step.op == Op::kCopy && in_left(step.dst) &&
         step.src.space == Space::kScratch;
}

bool leaves_in_scratch(const Problem& problem, const Step& step) {
  return problem.staging.left && step.dst2.size != 0 && step.dst2.space == Space::kScratch;
}

ScheduleFault check_step(const Problem& problem, const Step& step) {
  if (in_left(step.src) || in_left(step.src2) ||
      (in_left(step.dst) && !takes_to_left(problem, step)))
    return "takes what is left over for other memory";
  if ((in_left(step.dst2) || in_left(step.dst)) && !problem.keeps_left)
    return "keeps what is left, but the call does not";
  if (step.dst2.size != 0 && problem.keeps_left && !in_left(step.dst2) &&
      !leaves_in_scratch(problem, step))
    return "does not keep what is left where the call wants it";
  return {};
}

void sort(std::vector<Slice>& slices) {
  std::sort(slices.begin(), slices.end(),
            [](Slice left, Slice right) { return left.offset < right.offset; });
}

}  // namespace

Slice kept_at(const Schedule& schedule, Slice left) {
  if (left.space == Space::kLeft) return left;
  const auto taken =
      std::find_if(schedule.steps.begin(), schedule.steps.end(),
                   [&](const Step& step) { return step.op == Op::kCopy && step.src == left; });
  return taken->dst;
}

ScheduleFault check_left(const VerifiedCall& call, int rank) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  const Problem& problem = call.problems[static_cast<size_t>(rank)];
  std::vector<Slice> written;
  std::vector<Slice> in_scratch, taken;
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const Step& each = schedule.steps[step];
    ScheduleFault fault = check_step(problem, each);
    if (!fault.empty()) return place_of(call, rank, step) + ": " + fault;
    if (in_left(each.dst2)) written.push_back(each.dst2);
    if (leaves_in_scratch(problem, each)) in_scratch.push_back(each.dst2);
    if (!in_left(each.dst)) continue;
    written.push_back(each.dst);
    taken.push_back(each.src);
  }
  for (std::vector<Slice>* slices : {&in_scratch, &taken}) sort(*slices);
  if (in_scratch != taken)
    return "rank " + std::to_string(rank) + ": what is left in scratch is not taken out just once";
  std::vector<Slice> listed;
  for (const auto& [place, elements] : schedule.lefts) {
    if (elements.count > problem.count || elements.begin > problem.count - elements.count)
      return "rank " + std::to_string(rank) + ": its table of what is left has elements from " +
             std::to_string(elements.begin) + " on, which end behind the vector";
    listed.push_back({Space::kLeft, place * sizeof(float), elements.count * sizeof(float)});
  }
  for (std::vector<Slice>* slices : {&written, &listed}) sort(*slices);
  if (written != listed)
    return "rank " + std::to_string(rank) + ": its table of what is left has not what is written";
  for (size_t index = 1; index < written.size(); ++index)
    if (written[index].offset < written[index - 1].end())
      return "rank " + std::to_string(rank) + ": byte " + std::to_string(written[index].offset) +
             " of what is left is written twice";
  return {};
}

}  // namespace banyan
