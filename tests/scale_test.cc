// The two-level allreduce of 65,536 ranks on 8,192 hosts, verified: elements of one shard are
// followed through all ranks, as numbers drawn at random whose sum modulo 2^64 tells a contribution
// that is lost or counted twice.
//
// The rail of the shard, one rank of each host, runs its own schedules. The other ranks of a host
// only meet the shard inside the host; there each does what the same rank of the first host does,
// which is compared on some hosts, schedule by schedule. What holds for one shard holds for all of
// them, whose owners differ in nothing but their number within the host.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "tests/sanitizers.h"

namespace banyan {
namespace {

constexpr int kRanks = test::kAddressSanitizer ? 4096 : 65536;
constexpr int kLocal = 8;
constexpr int kHosts = kRanks / kLocal;
constexpr uint64_t kElement = 4;

// A followed element, where it is on one rank.
struct Cell {
  Space space;
  uint64_t offset;
  size_t element;  // index among the followed ones
  uint64_t value;
};

struct Message {
  uint64_t bytes = 0;
  std::vector<Cell> cells;  // offsets count from the message's begin
};

std::vector<Cell> cells_in(const std::vector<Cell>& memory, Slice slice) {
  std::vector<Cell> found;
  for (Cell cell : memory) {
    if (cell.space != slice.space || cell.offset < slice.offset || cell.offset >= slice.end())
      continue;
    cell.offset -= slice.offset;
    found.push_back(cell);
  }
  return found;
}

void put(std::vector<Cell>& memory, Slice slice, std::vector<Cell> cells) {
  std::erase_if(memory, [&](const Cell& cell) {
    return cell.space == slice.space && cell.offset >= slice.offset && cell.offset < slice.end();
  });
  for (Cell& cell : cells) {
    cell.space = slice.space;
    cell.offset += slice.offset;
    memory.push_back(cell);
  }
}

// Both have the same elements in the same places; empty where they have not.
std::optional<std::vector<Cell>> sum_of(std::vector<Cell> left, const std::vector<Cell>& right) {
  if (left.size() != right.size()) return std::nullopt;
  for (Cell& cell : left) {
    const auto other = std::find_if(right.begin(), right.end(), [&](const Cell& each) {
      return each.offset == cell.offset && each.element == cell.element;
    });
    if (other == right.end()) return std::nullopt;
    cell.value += other->value;
  }
  return left;
}

struct Wire {
  std::vector<Message> messages;
  size_t taken = 0;
};

class Job {
 public:
  // `owner`: of the shard, within every host.
  Job(const Problem& problem, const Hierarchy& hierarchy, int owner)
      : problem_(problem),
        owner_(owner),
        group_(Group::everyone(kRanks, 0, &hierarchy)),
        next_(kRanks, 0),
        memory_(kRanks) {
    for (int local = 0; local < kLocal; ++local) first_host_.push_back(schedule(local));
  }

  Schedule schedule(int rank) {
    group_.me = rank;
    return build_schedule(problem_, group_,
                          algorithms()[static_cast<size_t>(find_algorithm("hierarchical"))]);
  }
  void build_rail() {
    for (int host = 0; host < kHosts; ++host) rail_.push_back(schedule(host * kLocal + owner_));
  }
  std::vector<Cell>& memory(int rank) { return memory_[static_cast<size_t>(rank)]; }

  // Runs until nothing moves; what is wrong, empty if nothing is.
  std::string run() {
    for (int rank = 0; rank < kRanks; ++rank) awake_.push_back(rank);
    while (!awake_.empty()) {
      const int rank = awake_.front();
      awake_.pop_front();
      std::string fault = advance(rank);
      if (!fault.empty()) return fault;
    }
    for (int rank = 0; rank < kRanks; ++rank)
      if (next_[static_cast<size_t>(rank)] != steps(rank).size())
        return "rank " + std::to_string(rank) + " waits for ever";
    for (const auto& [ends, wire] : wires_)
      if (wire.taken != wire.messages.size())
        return "a message of rank " + std::to_string(ends / kRanks) + " is left";
    return "";
  }

 private:
  Wire& wire(int from, int to) {
    return wires_[static_cast<uint64_t>(from) * kRanks + static_cast<uint64_t>(to)];
  }
  bool on_rail(int rank) const { return rank % kLocal == owner_; }
  const std::vector<Step>& steps(int rank) const {
    return on_rail(rank) ? rail_[static_cast<size_t>(rank / kLocal)].steps
                         : first_host_[static_cast<size_t>(rank % kLocal)].steps;
  }
  // Of a step of a rank that follows the first host's: -1 where it leads to another host, and so
  // has nothing to do with the shard.
  int peer_of(int rank, const Step& step) const {
    if (step.peer < 0 || on_rail(rank)) return step.peer;
    return step.peer < kLocal ? rank / kLocal * kLocal + step.peer : -1;
  }

  std::string advance(int rank) {
    size_t& next = next_[static_cast<size_t>(rank)];
    for (; next < steps(rank).size(); ++next) {
      const Step& step = steps(rank)[next];
      const int peer = peer_of(rank, step);
      if (step.peer >= 0 && peer < 0) continue;
      std::vector<Cell> cells = cells_in(memory(rank), step.src);
      std::vector<Cell> other = cells_in(memory(rank), step.src2);
      if (step.op == Op::kSend) {
        wire(rank, peer).messages.push_back({step.src.size, std::move(cells)});
        awake_.push_back(peer);
        continue;
      }
      if (peer >= 0) {
        Wire& from = wire(peer, rank);
        if (from.taken == from.messages.size()) return "";  // until a message wakes it
        Message& message = from.messages[from.taken++];
        if (message.bytes != step.dst.size)
          return "rank " + std::to_string(rank) + " expects another length from " +
                 std::to_string(peer);
        other = std::move(message.cells);
      }
      if (step.op == Op::kReduce || step.op == Op::kRecvReduce) {
        const auto sum = sum_of(std::move(cells), other);
        if (!sum) return "rank " + std::to_string(rank) + " adds different elements";
        cells = *sum;
      } else if (step.op == Op::kRecv) {
        cells = std::move(other);
      }
      put(memory(rank), step.dst, std::move(cells));
    }
    return "";
  }

  const Problem& problem_;
  int owner_;
  Group group_;
  std::vector<Schedule> first_host_;  // by place in the host
  std::vector<Schedule> rail_;        // by host
  std::vector<size_t> next_;
  std::vector<std::vector<Cell>> memory_;
  std::unordered_map<uint64_t, Wire> wires_;  // by sender and receiver
  std::deque<int> awake_;
};

Hierarchy hosts() {
  std::vector<int> labels(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) labels[static_cast<size_t>(rank)] = rank / kLocal;
  return Hierarchy::of_labels("host", labels);
}

TEST(Scale, allreduce_of_65536_ranks_is_right) {
  const std::clock_t begin = std::clock();
  const Hierarchy hierarchy = hosts();
  Problem problem;
  problem.count = uint64_t{4} * kRanks;
  constexpr int kOwner = 5;
  Job job(problem, hierarchy, kOwner);
  job.build_rail();

  std::mt19937_64 random(4711);
  const uint64_t shard = problem.count / kLocal;
  const std::vector<uint64_t> followed = {kOwner * shard, kOwner * shard + random() % shard,
                                          (kOwner + 1) * shard - 1};
  std::vector<uint64_t> sums(followed.size(), 0);
  for (int rank = 0; rank < kRanks; ++rank)
    for (size_t element = 0; element < followed.size(); ++element) {
      const uint64_t value = random();
      sums[element] += value;
      job.memory(rank).push_back({Space::kInput, followed[element] * kElement, element, value});
    }
  ASSERT_EQ(job.run(), "");
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<Cell> results =
        cells_in(job.memory(rank), {Space::kOutput, 0, problem.count * kElement});
    ASSERT_EQ(results.size(), followed.size()) << "rank " << rank;
    for (const Cell& cell : results) {
      ASSERT_EQ(cell.offset, followed[cell.element] * kElement) << "rank " << rank;
      ASSERT_EQ(cell.value, sums[cell.element]) << "rank " << rank;
    }
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << kRanks << " ranks in " << seconds << " s of processor time\n";
}

// What the other test takes for granted of ranks beside the rail.
TEST(Scale, ranks_of_other_hosts_do_the_same_inside) {
  const Hierarchy hierarchy = hosts();
  Problem problem;
  problem.count = uint64_t{4} * kRanks;
  Job job(problem, hierarchy, 0);
  const auto inside = [](const Schedule& schedule, int host) {
    std::vector<Step> steps;
    for (Step step : schedule.steps) {
      if (step.peer < 0 || step.peer / kLocal != host) continue;
      step.peer -= host * kLocal;
      steps.push_back(step);
    }
    return steps;
  };
  for (const int local : {0, 3, 7}) {
    const std::vector<Step> first = inside(job.schedule(local), 0);
    EXPECT_GE(first.size(), 12U);
    for (const int host : {1, 2, kHosts / 2 - 1, kHosts / 3, kHosts - 1})
      EXPECT_EQ(inside(job.schedule(host * kLocal + local), host), first)
          << "rank " << local << " of host " << host;
  }
}

}  // namespace
}  // namespace banyan
