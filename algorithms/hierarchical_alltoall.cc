// Hierarchical alltoall: what the ranks of a part have for one rank of another part goes there in
// one message. Member i of a part collects, from all members, what is for the members i of all
// other parts (of M members, the member i mod M for i of M and more), so a rank sends a message to
// each other part instead of one to each of its ranks. (Blocks that go the same way share a
// message, as in Bruck et al. 1997.) Only the lowest level is looked at.
// SPDX-License-Identifier: Apache-2.0

#include <utility>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

class PartExchange {
 public:
  PartExchange(ScheduleBuilder& builder, const Group& group, const Hierarchy& levels,
               std::vector<Slice> input, std::vector<Slice> output)
      : builder_(builder),
        group_(group),
        levels_(levels),
        input_(std::move(input)),
        output_(std::move(output)),
        part_(levels.part_of(0, group.me)),
        inside_(group_of(group, members_of(part_))) {}

  // The own part's last: the others' have farther to go.
  void run() {
    for (int step = 1; step < levels_.parts(0); ++step)
      give_to(members_of((part_ + step) % levels_.parts(0)));
    for (int step = 1; step < levels_.parts(0); ++step)
      take_from(members_of((part_ - step + levels_.parts(0)) % levels_.parts(0)));
    for (int step = 1; step < inside_.size(); ++step) {
      const int to = place_inside(inside_.me + step);
      const int from = place_inside(inside_.me - step);
      builder_.send(at(input_, to), group_.at(to));
      builder_.recv(at(output_, from), group_.at(from));
    }
  }

 private:
  using Members = std::span<const int>;

  Members members_of(int part) const { return levels_.members(0, part); }
  int place_inside(int index) const {
    return members_of(part_)[static_cast<size_t>(inside_.wrap(index))];
  }
  static const Slice& at(const std::vector<Slice>& slices, int place) {
    return slices[static_cast<size_t>(place)];
  }

  // To another part: this rank's blocks to those who collect them, and what it has collected.
  void give_to(Members others) {
    for (size_t index = 0; index < others.size(); ++index) {
      const int collector = inside_.wrap(static_cast<int>(index));
      const Slice own = at(input_, others[index]);
      if (collector == inside_.me)
        builder_.send(collect(own), group_.at(others[index]));
      else
        builder_.send(own, inside_.at(collector));
    }
  }

  // One block of each member of the own part, in their order.
  Slice collect(Slice own) {
    if (inside_.size() == 1) return own;
    const Slice all = builder_.scratch(own.size * inside_.ranks.size());
    for (int member = 0; member < inside_.size(); ++member) {
      const Slice room = all.sub(static_cast<uint64_t>(member) * own.size, own.size);
      if (member == inside_.me)
        builder_.copy(own, room);
      else
        builder_.recv(room, inside_.at(member));
    }
    return all;
  }

  // From another part: one block of each of its members.
  void take_from(Members others) {
    std::vector<Slice> blocks;
    blocks.reserve(others.size());
    for (const int place : others) blocks.push_back(at(output_, place));
    const size_t collector = static_cast<size_t>(inside_.me) % others.size();
    const int peer = group_.at(others[collector]);
    const uint64_t block = blocks.front().size;
    const uint64_t bytes = block * others.size();
    if (packed(blocks)) {
      builder_.recv({blocks.front().space, blocks.front().offset, bytes}, peer);
      return;
    }
    const Slice landing = builder_.scratch(bytes);
    builder_.recv(landing, peer);
    for (size_t index = 0; index < blocks.size(); ++index)
      builder_.copy(landing.sub(index * block, block), blocks[index]);
  }

  ScheduleBuilder& builder_;
  const Group& group_;
  const Hierarchy& levels_;
  std::vector<Slice> input_, output_;  // by place
  int part_;
  Group inside_;
};

}  // namespace

void hierarchical_alltoall(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) return pairwise_alltoall(builder, group, problem);
  if (problem.check) leaders_barrier(builder, group, problem);
  builder.fence();
  const auto me = static_cast<size_t>(group.me);
  std::vector<Slice> input =
      slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element());
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  if (problem.in_place)
    input = set_aside(builder, input);
  else
    builder.copy(input[me], output[me]);
  PartExchange(builder, group, *levels, std::move(input), output).run();
}

}  // namespace banyan
