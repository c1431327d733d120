// Two binary trees have half of the data each. A rank that passes data on in one has none to pass
// on in the other. They are pipelined in chunks (Sanders, Speck, Träff 2009).
//
// Place 0 is the root and feeds both trees. Places 1 .. P - 1 form an in-order binary tree: a place
// with lowest set bit b has the children v - b/2 and v + b/2 (nearer ones where that is beyond the
// end), so odd places are leaves:
//
//            4
//        2       6
//      1   3   5   7
//
// The second tree is the first one mirrored (P - 1 even) or shifted by one place (P - 1 odd), which
// makes the odd places inner ones.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

struct Place {
  int parent = -1;
  std::vector<int> children;
};

// Finds a place in the in-order tree over places 1 .. last, with 0 above its top.
Place inner_place(int place, int last) {
  if (last < 1) return {};
  const int top = static_cast<int>(std::bit_floor(static_cast<unsigned>(last)));
  if (place == 0) return {-1, {top}};
  const int low = place & -place;
  Place found;
  if (place == top) {
    found.parent = 0;
  } else {
    const int above = (place ^ low) | (low << 1);
    found.parent = above <= last ? above : place ^ low;
  }
  if (low > 1) found.children.push_back(place - low / 2);
  for (int reach = low / 2; reach > 0; reach /= 2) {
    if (place + reach > last) continue;
    found.children.push_back(place + reach);
    break;
  }
  return found;
}

// Places of the second tree in terms of the first; an involution where it mirrors.
int to_second(int place, int last) {
  if (place == 0) return 0;
  return last % 2 == 0 ? last + 1 - place : place % last + 1;
}

int from_second(int place, int last) {
  if (place == 0) return 0;
  return last % 2 == 0 ? last + 1 - place : (place + last - 2) % last + 1;
}

class DoubleTree {
 public:
  DoubleTree(const Group& group, int root) : group_(group) {
    while (group.ranks[static_cast<size_t>(root_index_)] != root) ++root_index_;
    const int last = group.size() - 1;
    const int me = group.wrap(group.me - root_index_);
    places_[0] = inner_place(me, last);
    places_[1] = inner_place(to_second(me, last), last);
    Place& second = places_[1];
    if (second.parent >= 0) second.parent = from_second(second.parent, last);
    for (int& child : second.children) child = from_second(child, last);
  }

  bool is_root() const { return places_[0].parent < 0; }
  int parent(int tree) const { return rank(places_[tree].parent); }
  std::vector<int> children(int tree) const {
    std::vector<int> ranks;
    for (const int child : places_[tree].children) ranks.push_back(rank(child));
    return ranks;
  }

 private:
  int rank(int place) const { return group_.at(root_index_ + place); }

  const Group& group_;
  int root_index_ = 0;
  Place places_[2];
};

// The chunks of both trees in turn; chunk i travels along tree i % 2. None is empty.
std::vector<Part> chunks_of(const Group& group, const Problem& problem) {
  const uint64_t chunks =
      2 * tree_chunks(problem.count * problem.element(), given_length(group.parameters, problem));
  const auto count = static_cast<int>(std::min(chunks, problem.count));
  std::vector<Part> parts;
  for (int i = 0; i < count; ++i) parts.push_back(part_of(problem.count, count, i));
  return parts;
}

void sum_chunk_up(ScheduleBuilder& builder, const DoubleTree& trees, Accumulators& sums,
                  int chunk) {
  const int tree = chunk % 2;
  const std::vector<int> children = trees.children(tree);
  Slice partial = sums.own(chunk);
  for (size_t i = 0; i < children.size(); ++i) {
    const bool last = trees.is_root() && i + 1 == children.size();
    const Slice dst = last ? sums.last(chunk) : sums.room(chunk);
    sums.absorb(chunk, children[i], partial, dst);
    partial = dst;
  }
  if (trees.is_root())
    sums.store(chunk);
  else
    builder.send(partial, trees.parent(tree));
}

void send_chunk_down(ScheduleBuilder& builder, const DoubleTree& trees, Slice source, Slice output,
                     int chunk) {
  const int tree = chunk % 2;
  if (!trees.is_root()) builder.recv(output, trees.parent(tree));
  for (const int child : trees.children(tree))
    builder.send(trees.is_root() ? source : output, child);
}

Accumulators accumulate_chunks(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                               const std::vector<Part>& chunks) {
  const Slice output = whole_output(group, problem);
  std::vector<Slice> targets(chunks.size());
  if (output.size != 0) targets = slices_of(output, chunks, problem.element());
  return {builder, group, problem,
          slices_of(whole_input(group, problem), chunks, problem.element()), std::move(targets)};
}

}  // namespace

void double_tree_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const DoubleTree trees(group, group.ranks.front());
  const std::vector<Part> chunks = chunks_of(group, problem);
  Accumulators sums = accumulate_chunks(builder, group, problem, chunks);
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), chunks, problem.element());
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk)
    sum_chunk_up(builder, trees, sums, chunk);
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk)
    send_chunk_down(builder, trees, output[static_cast<size_t>(chunk)],
                    output[static_cast<size_t>(chunk)], chunk);
}

void double_tree_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const DoubleTree trees(group, problem.root);
  const std::vector<Part> chunks = chunks_of(group, problem);
  Accumulators sums = accumulate_chunks(builder, group, problem, chunks);
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk)
    sum_chunk_up(builder, trees, sums, chunk);
}

void double_tree_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const DoubleTree trees(group, problem.root);
  const std::vector<Part> chunks = chunks_of(group, problem);
  const Slice output = whole_output(group, problem);
  const Slice source = trees.is_root() ? whole_input(group, problem) : output;
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk) {
    const Part part = chunks[static_cast<size_t>(chunk)];
    send_chunk_down(builder, trees, elements(source, part, problem.element()),
                    elements(output, part, problem.element()), chunk);
  }
  if (trees.is_root()) builder.copy(source, output);
}

}  // namespace banyan
