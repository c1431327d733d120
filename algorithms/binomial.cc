// Binomial trees take ceil(log2 P) rounds from or to a root.
//
// Places are counted from the root. Place v has the parent v without its lowest set bit, and the
// children v + b for the powers of two b below that bit; the subtree of a child v + b are the
// places [v + b, v + 2b).
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "algorithms/generators.h"

namespace banyan {
namespace {

struct Child {
  int place;
  int end;  // its subtree is [place, end)
};

class Tree {
 public:
  Tree(const Group& group, int root) : group_(group) {
    int root_index = 0;
    while (group.ranks[static_cast<size_t>(root_index)] != root) ++root_index;
    root_index_ = root_index;
    place_ = group.wrap(group.me - root_index);
  }

  bool is_root() const { return place_ == 0; }
  int place() const { return place_; }
  int index(int place) const { return group_.wrap(root_index_ + place); }
  int rank(int place) const { return group_.at(root_index_ + place); }
  int parent() const { return place_ & (place_ - 1); }
  // Largest subtree first.
  std::vector<Child> children() const {
    std::vector<Child> found;
    const int size = group_.size();
    int bit = 1;
    while (bit < size && (place_ & bit) == 0) bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2)
      if (place_ + bit < size) found.push_back({place_ + bit, std::min(place_ + 2 * bit, size)});
    return found;
  }
  int subtree_end() const {
    const int low = is_root() ? group_.size() : place_ & -place_;
    return std::min(place_ + low, group_.size());
  }

 private:
  const Group& group_;
  int root_index_ = 0;
  int place_ = 0;
};

int root_of(const Group& group, const Problem& problem) {
  const bool rooted =
      problem.collective == Collective::kReduce || problem.collective == Collective::kBroadcast ||
      problem.collective == Collective::kGather || problem.collective == Collective::kScatter;
  return rooted ? problem.root : group.ranks.front();
}

void send_down(ScheduleBuilder& builder, const Tree& tree, Slice source, Slice output) {
  if (!tree.is_root()) builder.recv(output, tree.rank(tree.parent()));
  if (output.size == 0) builder.fence();  // what empty messages say no bytes order
  for (const Child& child : tree.children())
    builder.send(tree.is_root() ? source : output, tree.rank(child.place));
}

// After it, the root has stored the sum.
void sum_up(ScheduleBuilder& builder, const Tree& tree, Accumulators& sum) {
  Slice partial = sum.own(0);
  std::vector<Child> children = tree.children();
  std::reverse(children.begin(), children.end());  // small subtrees are ready first
  for (size_t i = 0; i < children.size(); ++i) {
    const bool last = tree.is_root() && i + 1 == children.size();
    const Slice dst = last ? sum.last(0) : sum.room(0);
    sum.absorb(0, tree.rank(children[i].place), partial, dst);
    partial = dst;
  }
  if (tree.is_root())
    sum.store(0);
  else
    builder.send(partial, tree.rank(tree.parent()));
}

// The subtree's blocks in the order of places; the root's user buffer is in the order of ranks.
std::vector<Slice> staged(ScheduleBuilder& builder, const Tree& tree, uint64_t block_bytes) {
  const int count = tree.subtree_end() - tree.place();
  const Slice stage = builder.scratch(block_bytes * static_cast<uint64_t>(count));
  std::vector<Slice> slices;
  for (int i = 0; i < count; ++i)
    slices.push_back(stage.sub(block_bytes * static_cast<uint64_t>(i), block_bytes));
  return slices;
}

Slice range_of(const std::vector<Slice>& slices, int begin, int end) {
  const Slice& first = slices[static_cast<size_t>(begin)];
  return {first.space, first.offset, slices[static_cast<size_t>(end - 1)].end() - first.offset};
}

}  // namespace

void binomial_reduce_phase(ScheduleBuilder& builder, const Group& group, int root,
                           Accumulators& sum) {
  sum_up(builder, Tree(group, root), sum);
}

void binomial_broadcast_phase(ScheduleBuilder& builder, const Group& group, int root, Slice source,
                              Slice output) {
  send_down(builder, Tree(group, root), source, output);
}

void binomial_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Tree tree(group, problem.root);
  const Slice source = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  send_down(builder, tree, source, output);
  if (tree.is_root()) builder.copy(source, output);
}

void binomial_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Tree tree(group, problem.root);
  Accumulators sum(builder, group, problem, {whole_input(group, problem)},
                   {whole_output(group, problem)});
  sum_up(builder, tree, sum);
}

void binomial_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Tree tree(group, root_of(group, problem));
  const Slice output = whole_output(group, problem);
  Accumulators sum(builder, group, problem, {whole_input(group, problem)}, {output});
  sum_up(builder, tree, sum);
  send_down(builder, tree, output, output);
}

void binomial_barrier(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Tree tree(group, root_of(group, problem));
  for (const Child& child : tree.children()) builder.recv({}, tree.rank(child.place));
  builder.fence();
  if (!tree.is_root()) {
    builder.send({}, tree.rank(tree.parent()));
    builder.recv({}, tree.rank(tree.parent()));
    builder.fence();
  }
  for (const Child& child : tree.children()) builder.send({}, tree.rank(child.place));
}

void binomial_gather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Tree tree(group, problem.root);
  const uint64_t block_bytes = problem.count * problem.element();
  const std::vector<Slice> stage = staged(builder, tree, block_bytes);
  const int place = tree.place();
  if (!tree.is_root()) builder.copy(whole_input(group, problem), stage.front());
  for (const Child& child : tree.children())
    builder.recv(range_of(stage, child.place - place, child.end - place), tree.rank(child.place));
  if (!tree.is_root()) {
    builder.send(range_of(stage, 0, static_cast<int>(stage.size())), tree.rank(tree.parent()));
    return;
  }
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  builder.copy(whole_input(group, problem), output[static_cast<size_t>(group.me)]);
  for (int i = 1; i < group.size(); ++i)
    builder.copy(stage[static_cast<size_t>(i)], output[static_cast<size_t>(tree.index(i))]);
}

void binomial_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Tree tree(group, problem.root);
  const uint64_t block_bytes = problem.count * problem.element();
  const std::vector<Slice> stage = staged(builder, tree, block_bytes);
  const int place = tree.place();
  const Slice output = whole_output(group, problem);
  if (tree.is_root()) {
    const std::vector<Slice> input =
        slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element());
    for (int i = 1; i < group.size(); ++i)
      builder.copy(input[static_cast<size_t>(tree.index(i))], stage[static_cast<size_t>(i)]);
    builder.copy(input[static_cast<size_t>(group.me)], output);
  } else {
    builder.recv(range_of(stage, 0, static_cast<int>(stage.size())), tree.rank(tree.parent()));
    builder.copy(stage.front(), output);
  }
  for (const Child& child : tree.children())
    builder.send(range_of(stage, child.place - place, child.end - place), tree.rank(child.place));
}

void broadcast_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  AllgatherPhase allgather) {
  agree(builder, group, problem);
  const Tree tree(group, problem.root);
  const std::vector<Part> blocks = output_blocks(group, problem);
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), blocks, problem.element());
  std::vector<Slice> source = output;
  if (tree.is_root()) source = slices_of(whole_input(group, problem), blocks, problem.element());

  const auto at = [&](int place) -> size_t { return static_cast<size_t>(tree.index(place)); };
  if (!tree.is_root())
    for (int place = tree.place(); place < tree.subtree_end(); ++place)
      builder.recv(output[at(place)], tree.rank(tree.parent()));
  for (const Child& child : tree.children())
    for (int place = child.place; place < child.end; ++place)
      builder.send(source[at(place)], tree.rank(child.place));
  if (tree.is_root()) builder.copy(source[at(0)], output[at(0)]);
  allgather(builder, group, output);
}

}  // namespace banyan
