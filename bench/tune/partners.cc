// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/partners.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

namespace banyan::tune {

namespace {

constexpr uint32_t kMostRounds = 16;

uint32_t depth_of(const Hierarchy& lie) {
  return static_cast<uint32_t>(lie.depth());
}

void join(std::vector<int>& partners, int a, int b) {
  partners[static_cast<size_t>(a)] = b;
  partners[static_cast<size_t>(b)] = a;
}

// Until all have met all.
size_t rounds_among(size_t players) {
  return players < 2 ? 0 : players + players % 2 - 1;
}

// Finds the seat across, of an even number: the last one stays, the others turn around it.
size_t seat_across(size_t seat, size_t round, size_t seats) {
  const size_t turning = seats - 1;
  if (seat == turning) return round % turning;
  if (seat == round % turning) return turning;
  return (2 * (round % turning) + turning - seat) % turning;
}

// The parts of a level that share one of the next level, for each of those; at the top all.
std::vector<std::vector<int>> tournaments_at(const Hierarchy& lie, int level) {
  const bool top = level + 1 == lie.depth();
  std::vector<std::vector<int>> players(top ? 1 : static_cast<size_t>(lie.parts(level + 1)));
  for (int part = 0; part < lie.parts(level); ++part) {
    const int above = top ? 0 : lie.part_of(level + 1, lie.members(level, part).front());
    players[static_cast<size_t>(above)].push_back(part);
  }
  return players;
}

// Orders the ranks of a part: the first rank of each host, then the second ones, so that few ranks
// are on many hosts and the next one is on the next host.
std::vector<int> around_hosts(const Hierarchy& lie, int level, int part) {
  std::vector<std::tuple<size_t, int, int>> seats;  // place in the host, host, rank
  for (const int rank : lie.members(level, part)) {
    const int host = lie.part_of(0, rank);
    const std::span<const int> own = lie.members(0, host);
    const auto place = std::lower_bound(own.begin(), own.end(), rank) - own.begin();
    seats.emplace_back(static_cast<size_t>(place), host, rank);
  }
  std::sort(seats.begin(), seats.end());
  std::vector<int> ranks;
  for (const auto& [place, host, rank] : seats) ranks.push_back(rank);
  return ranks;
}

int hosts_in(const Hierarchy& lie, int level, int part) {
  const auto members = lie.members(level, part);
  return static_cast<int>(std::count_if(members.begin(), members.end(), [&](int rank) {
    return lie.members(0, lie.part_of(0, rank)).front() == rank;
  }));
}

// The larger of two parts moves on by `turn`.
void meet(std::vector<int>& partners, std::vector<int> one, std::vector<int> other, size_t turn,
          bool busy) {
  if (one.size() > other.size()) std::swap(one, other);
  const size_t pairs = busy ? one.size() : 1;
  for (size_t i = 0; i < pairs; ++i) join(partners, one[i], other[(i + turn) % other.size()]);
}

}  // namespace

std::vector<int> partners_of(const Hierarchy& lie, const Probe& probe) {
  std::vector<int> partners(static_cast<size_t>(lie.places()), -1);
  if (probe.level > depth_of(lie)) return partners;
  const bool busy = probe.busy != 0;
  if (probe.level == 0) {
    for (int host = 0; host < lie.parts(0); ++host) {
      const std::span<const int> own = lie.members(0, host);
      const size_t most = busy ? own.size() : std::min<size_t>(own.size(), 2);
      for (size_t i = 0; i + 1 < most; i += 2) join(partners, own[i], own[i + 1]);
    }
    return partners;
  }
  const auto below = static_cast<int>(probe.level) - 1;
  for (const std::vector<int>& players : tournaments_at(lie, below)) {
    const size_t rounds = rounds_among(players.size());
    if (rounds == 0) continue;
    // Two that meet again do so one turn later.
    const size_t turn = below == 0 ? 0 : probe.round / rounds + probe.round % rounds;
    for (size_t one = 0; one < players.size(); ++one) {
      const size_t other = seat_across(one, probe.round, rounds + 1);
      if (other <= one || other >= players.size()) continue;
      meet(partners, around_hosts(lie, below, players[one]),
           around_hosts(lie, below, players[other]), turn, busy);
    }
  }
  return partners;
}

uint32_t rounds_of(const Hierarchy& lie, uint32_t level) {
  if (level > depth_of(lie)) return 0;
  if (level == 0) return lie.largest_part(0) > 1 ? 1 : 0;
  const auto below = static_cast<int>(level) - 1;
  size_t rounds = 0;
  for (const std::vector<int>& players : tournaments_at(lie, below))
    rounds = std::max(rounds, rounds_among(players.size()));
  int turns = 1;
  for (int part = 0; part < lie.parts(below); ++part)
    turns = std::max(turns, hosts_in(lie, below, part));
  return static_cast<uint32_t>(std::min<size_t>(rounds * static_cast<size_t>(turns), kMostRounds));
}

}  // namespace banyan::tune
