// Bruck's algorithms do allgather and all-to-all of small blocks in ceil(log2 P) rounds for any
// number of ranks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997).
//
// All blocks travel through scratch, so the user's buffer is written only after the last round,
// when this rank has heard from all others.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "algorithms/generators.h"

namespace banyan {

// Block i of the stage belongs to index me + i. In the round of distance d, the first d blocks go
// to me - d, for which they are blocks d, d + 1, ...
void bruck_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  const int size = group.size();
  uint64_t total = 0;
  std::vector<uint64_t> begin;  // of block i in the stage, and the end of the last one
  for (int i = 0; i < size; ++i) {
    begin.push_back(total);
    total += output[static_cast<size_t>(group.wrap(group.me + i))].size;
  }
  begin.push_back(total);
  const Slice stage = builder.scratch(total);
  const auto blocks = [&](int from, int to) {
    const uint64_t first = begin[static_cast<size_t>(from)];
    return stage.sub(first, begin[static_cast<size_t>(to)] - first);
  };

  const bool empty_blocks =
      std::any_of(output.begin(), output.end(), [](const Slice& slice) { return slice.size == 0; });
  if (empty_blocks) agree(builder, group, problem);
  builder.copy(whole_input(group, problem), blocks(0, 1));
  for (int distance = 1; distance < size; distance *= 2) {
    const int count = std::min(distance, size - distance);
    builder.send(blocks(0, count), group.at(group.me - distance));
    builder.recv(blocks(distance, distance + count), group.at(group.me + distance));
  }
  builder.fence();
  for (int i = 0; i < size; ++i)
    builder.copy(blocks(i, i + 1), output[static_cast<size_t>(group.wrap(group.me + i))]);
}

// Block i is on its way to index me + i. In the round of distance d, blocks whose number has bit d
// go to me + d together.
void bruck_alltoall(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const uint64_t element = problem.element();
  const std::vector<Slice> input =
      slices_of(whole_input(group, problem), input_blocks(group, problem), element);
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), element);
  const int size = group.size();
  const uint64_t bytes = problem.count * element;
  std::vector<Slice> where;  // block i is now
  for (int i = 0; i < size; ++i)
    where.push_back(input[static_cast<size_t>(group.wrap(group.me + i))]);

  for (int distance = 1; distance < size; distance *= 2) {
    std::vector<size_t> moving;
    for (int i = 1; i < size; ++i)
      if ((i & distance) != 0) moving.push_back(static_cast<size_t>(i));
    const Slice outgoing = builder.scratch(bytes * moving.size());
    const Slice incoming = builder.scratch(bytes * moving.size());
    for (size_t k = 0; k < moving.size(); ++k) {
      builder.copy(where[moving[k]], outgoing.sub(bytes * k, bytes));
      where[moving[k]] = incoming.sub(bytes * k, bytes);
    }
    builder.send(outgoing, group.at(group.me + distance));
    builder.recv(incoming, group.at(group.me - distance));
  }
  builder.fence();
  // What travelled i places forward came from me - i.
  for (int i = 0; i < size; ++i)
    builder.copy(where[static_cast<size_t>(i)],
                 output[static_cast<size_t>(group.wrap(group.me - i))]);
}

}  // namespace banyan
