// Says what each collective finds in the caller's memory, and what it has to leave there.
//
// All sizes are bytes. The origin of a contribution is its place in the caller's send buffer, or,
// in place, where it would be there.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

// Lays out the memory of one rank.
struct Writer {
  const VerifiedCall& call;
  const Symbols& symbols;
  int rank;
  const Problem& problem;
  uint64_t element;
  Layout layout;

  uint64_t whole() const { return problem.count * element; }
  uint64_t all() const { return whole() * static_cast<uint64_t>(call.ranks); }
  uint64_t block(int of) const { return whole() * static_cast<uint64_t>(of); }
  bool is_root() const { return rank == problem.root; }

  void output(uint64_t size) {
    layout.output_size = size;
    layout.output.write(0, size, symbols.untouched(), 0);
  }
  // Our contribution, or a piece of it, is in the send buffer at `origin`, or in the output at
  // `place`.
  void contribute(uint64_t size, uint64_t origin, uint64_t place, bool in_place) {
    if (in_place) {
      layout.output.write(place, size, symbols.contribution(rank), origin);
      return;
    }
    layout.input_size = std::max(layout.input_size, origin + size);
    layout.input.write(origin, size, symbols.contribution(rank), origin);
  }
  // From here on the output is as expected, except for what is said next.
  void begin_results() { layout.expected = layout.output; }
  void expect(uint64_t place, uint64_t size, int source, uint64_t origin) {
    layout.expected.write(place, size, symbols.contribution(source), origin);
  }
  void expect_result(uint64_t place, uint64_t size, uint64_t origin) {
    layout.expected.write(place, size, symbols.result(), origin);
  }
};

uint64_t sum_before(const std::vector<uint64_t>& counts, size_t end) {
  uint64_t sum = 0;
  for (size_t index = 0; index < end; ++index) sum += counts[index];
  return sum;
}

// allreduce, reduce
void lay_out_reduction(Writer& to, bool has_result) {
  to.output(has_result ? to.whole() : 0);
  to.contribute(to.whole(), 0, 0, to.problem.in_place && has_result);
  to.begin_results();
  if (has_result) to.expect_result(0, to.whole(), 0);
}

void lay_out_broadcast(Writer& to) {
  to.output(to.whole());
  if (to.is_root()) to.contribute(to.whole(), 0, 0, to.problem.in_place);
  to.begin_results();
  to.expect(0, to.whole(), to.problem.root, 0);
}

// allgather, gather
void lay_out_gather(Writer& to, bool has_result) {
  to.output(has_result ? to.all() : 0);
  to.contribute(to.whole(), 0, to.block(to.rank), to.problem.in_place && has_result);
  to.begin_results();
  if (!has_result) return;
  for (int source = 0; source < to.call.ranks; ++source)
    to.expect(to.block(source), to.whole(), source, 0);
}

void lay_out_allgatherv(Writer& to) {
  const auto& counts = to.problem.recv_counts;
  const auto& places = to.problem.recv_displacements;
  const auto me = static_cast<size_t>(to.rank);
  uint64_t end = 0;
  for (size_t source = 0; source < counts.size(); ++source)
    if (counts[source] != 0) end = std::max(end, places[source] + counts[source]);
  to.output(end * to.element);
  to.contribute(counts[me] * to.element, 0, places[me] * to.element, to.problem.in_place);
  to.begin_results();
  for (size_t source = 0; source < counts.size(); ++source)
    to.expect(places[source] * to.element, counts[source] * to.element, static_cast<int>(source),
              0);
}

void lay_out_reduce_scatter(Writer& to) {
  to.output(to.problem.in_place ? to.all() : to.whole());
  to.contribute(to.all(), 0, 0, to.problem.in_place);
  to.begin_results();
  to.expect_result(to.problem.in_place ? to.block(to.rank) : 0, to.whole(), to.block(to.rank));
}

void lay_out_reduce_scatterv(Writer& to) {
  const auto& counts = to.problem.recv_counts;
  const auto me = static_cast<size_t>(to.rank);
  const uint64_t all = sum_before(counts, counts.size()) * to.element;
  const uint64_t mine = counts[me] * to.element;
  const uint64_t begin = sum_before(counts, me) * to.element;
  to.output(to.problem.in_place ? all : mine);
  to.contribute(all, 0, 0, to.problem.in_place);
  to.begin_results();
  to.expect_result(to.problem.in_place ? begin : 0, mine, begin);
}

void lay_out_alltoall(Writer& to) {
  to.output(to.all());
  to.contribute(to.all(), 0, 0, to.problem.in_place);
  to.begin_results();
  for (int source = 0; source < to.call.ranks; ++source)
    to.expect(to.block(source), to.whole(), source, to.block(to.rank));
}

void lay_out_alltoallv(Writer& to) {
  const Problem& mine = to.problem;
  const auto ranks = static_cast<size_t>(to.call.ranks);
  const auto me = static_cast<size_t>(to.rank);
  uint64_t end = 0;
  for (size_t peer = 0; peer < ranks; ++peer) {
    if (mine.recv_counts[peer] != 0)
      end = std::max(end, mine.recv_displacements[peer] + mine.recv_counts[peer]);
    if (mine.in_place && mine.send_counts[peer] != 0)
      end = std::max(end, mine.send_displacements[peer] + mine.send_counts[peer]);
  }
  to.output(end * to.element);
  for (size_t peer = 0; peer < ranks; ++peer) {
    const uint64_t place = mine.send_displacements[peer] * to.element;
    const uint64_t size = mine.send_counts[peer] * to.element;
    if (size != 0) to.contribute(size, place, place, mine.in_place);
  }
  to.begin_results();
  for (size_t source = 0; source < ranks; ++source) {
    const Problem& theirs = to.call.problems[source];
    to.expect(mine.recv_displacements[source] * to.element, mine.recv_counts[source] * to.element,
              static_cast<int>(source), theirs.send_displacements[me] * to.element);
  }
}

void lay_out_scatter(Writer& to) {
  const bool in_place = to.problem.in_place && to.is_root();
  to.output(in_place ? to.all() : to.whole());
  if (to.is_root()) to.contribute(to.all(), 0, 0, in_place);
  to.begin_results();
  to.expect(in_place ? to.block(to.rank) : 0, to.whole(), to.problem.root, to.block(to.rank));
}

}  // namespace

Layout layout_of(const VerifiedCall& call, const Symbols& symbols, int rank) {
  const Problem& problem = call.problems[static_cast<size_t>(rank)];
  Writer to{call, symbols, rank, problem, problem.element(), {}};
  switch (call.collective) {
    case Collective::kAllreduce: lay_out_reduction(to, true); break;
    case Collective::kReduce: lay_out_reduction(to, to.is_root()); break;
    case Collective::kBroadcast: lay_out_broadcast(to); break;
    case Collective::kAllgather: lay_out_gather(to, true); break;
    case Collective::kGather: lay_out_gather(to, to.is_root()); break;
    case Collective::kAllgatherv: lay_out_allgatherv(to); break;
    case Collective::kReduceScatter: lay_out_reduce_scatter(to); break;
    case Collective::kReduceScatterv: lay_out_reduce_scatterv(to); break;
    case Collective::kAlltoall: lay_out_alltoall(to); break;
    case Collective::kAlltoallv: lay_out_alltoallv(to); break;
    case Collective::kScatter: lay_out_scatter(to); break;
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kFinalize:
    case Collective::kSplit: break;
  }
  return std::move(to.layout);
}

}  // namespace banyan
