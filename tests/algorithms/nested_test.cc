// Algorithms that go by levels are right on hierarchies of any depth and shape: parts of any sizes,
// one within another, ranks numbered in any order, with whatever a rule may say; drawn from a seed.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/sanitizers.h"

namespace banyan::nested_test {
namespace {

// Tells for each level, from the highest, how many parts of the level below are in each of its
// parts; for the lowest, how many ranks.
using Sizes = std::vector<std::vector<int>>;

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const std::vector<int>& level : sizes) {
    if (!text.empty()) text += " of ";
    for (size_t part = 0; part < level.size(); ++part)
      text += (part == 0 ? "" : "+") + std::to_string(level[part]);
  }
  return text;
}

// `order`: the places in the order of the lowest parts.
Shape shape_of(const Sizes& sizes, const std::vector<int>& order) {
  const size_t depth = sizes.size();
  std::vector<Hierarchy::Level> levels(depth);
  size_t next = 0;
  for (const int size : sizes.back()) {
    auto& part = levels[0].parts.emplace_back();
    for (int i = 0; i < size; ++i) part.push_back(order[next++]);
  }
  levels[0].name = "host";
  for (size_t level = 1; level < depth; ++level) {
    levels[level].name = "level" + std::to_string(level);
    size_t below = 0;
    for (const int size : sizes[depth - 1 - level]) {
      auto& part = levels[level].parts.emplace_back();
      for (int i = 0; i < size; ++i, ++below) {
        const auto& inside = levels[level - 1].parts[below];
        part.insert(part.end(), inside.begin(), inside.end());
      }
    }
  }
  return {text_of(sizes), *Hierarchy::make(static_cast<int>(order.size()), levels)};
}

class Drawn {
 public:
  explicit Drawn(uint32_t seed) : random_(seed) {}

  int below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }
  template <typename List>
  auto one_of(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int>(std::size(list))))];
  }

  // Two to four levels, of parts that are one often; few ranks.
  Sizes sizes() {
    Sizes sizes{std::vector<int>(static_cast<size_t>(1 + below(3)))};
    for (int depth = 2 + below(3);; --depth) {
      int sum = 0;
      for (int& size : sizes.back())
        sum += size = depth == 1 ? one_of(std::vector<int>{1, 1, 1, 2, 2, 3, 3, 4, 5, 7})
                                 : one_of(std::vector<int>{1, 1, 2, 2, 3});
      if (depth == 1) return sizes;
      sizes.emplace_back(static_cast<size_t>(sum));
    }
  }

  // Simplified; of two to so many ranks.
  std::shared_ptr<Shape> shape(int most) {
    while (true) {
      const Sizes drawn = sizes();
      const int ranks = std::accumulate(drawn.back().begin(), drawn.back().end(), 0);
      if (ranks < 2 || ranks > most) continue;
      auto shape = std::make_shared<Shape>(shape_of(drawn, order(ranks)));
      shape->hierarchy = shape->hierarchy.simplified();
      if (shape->hierarchy.depth() > 0) return shape;
    }
  }

  std::vector<int> order(int ranks) {
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    if (below(3) != 0) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  Parameters parameters(const Algorithm& algorithm, Collective collective) {
    Parameters drawn;
    if (algorithm.takes(ParameterKey::kSegment, collective) && below(2) == 0)
      drawn.segment = one_of(std::vector<uint32_t>{1, 4, 8, 13, 64});
    if (algorithm.takes(ParameterKey::kIntra, collective))
      drawn.intra = static_cast<Phase>(below(2) * below(kPhaseCount));
    if (algorithm.takes(ParameterKey::kInter, collective))
      drawn.inter = static_cast<Phase>(below(2) * below(kPhaseCount));
    if (algorithm.takes(ParameterKey::kRails, collective) && below(3) == 0)
      drawn.rails = static_cast<uint16_t>(1 + below(6));
    return drawn;
  }

  VerifiedCase call(int algorithm, Collective collective, std::shared_ptr<const Shape> shape) {
    const int ranks = shape->hierarchy.places();
    VerifiedCase call{.collective = collective, .algorithm = algorithm, .ranks = ranks};
    const auto size = static_cast<uint64_t>(ranks);
    call.count = one_of(
        std::vector<uint64_t>{0, 1, 2, 3, 5, 7, 13, 37, 127, size - 1, size, size + 1, 3 * size});
    call.in_place = below(2) == 0;
    call.check = below(4) != 0;
    if (has_root(collective)) call.root = below(ranks);
    if (reduces(collective)) {
      call.type = one_of(std::vector{DataType::kFloat32, DataType::kBfloat16, DataType::kInt8});
      call.op = one_of(std::vector{ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin});
      if (call.type != DataType::kInt8 && below(3) == 0)
        call.op = one_of(std::vector{ReduceOp::kAvg, ReduceOp::kPreMulSum});
    } else {
      call.type = one_of(std::vector{DataType::kInt8, DataType::kFloat64});
    }
    if (is_synchronisation(collective)) {
      call.count = 0;
      call.in_place = false;
    }
    call.parameters = parameters(algorithms()[static_cast<size_t>(algorithm)], collective);
    call.shape = std::move(shape);
    return call;
  }

 private:
  std::mt19937 random_;
};

bool is_right(const VerifiedCase& call, uint32_t seed) {
  const BuiltCase built = build_case(call);
  const Verification result =
      verify(built.schedules, built.problems, {.slots = static_cast<int>(seed % 5), .seed = seed});
  EXPECT_TRUE(result.ok) << call << ", seed " << seed << ": " << result.reason;
  return result.ok;
}

// Each collective of an algorithm that minds levels.
template <typename Visit>
void for_each_by_levels(Visit visit) {
  for (const char* name : {"hierarchical", "leaders", "ring"}) {
    const int algorithm = find_algorithm(name);
    for (int collective = 0; collective < kCollectiveCount; ++collective)
      if (fits(algorithm, static_cast<Collective>(collective)))
        visit(algorithm, static_cast<Collective>(collective));
  }
}

TEST(Nested, HierarchiesThatAreDrawnAreRight) {
  constexpr uint32_t kDraws = test::kAddressSanitizer ? 20 : 150;
  for_each_by_levels([](int algorithm, Collective collective) {
    for (uint32_t seed = 0; seed < kDraws; ++seed) {
      Drawn drawn(seed * 64 + static_cast<uint32_t>(collective));
      const Sizes sizes = drawn.sizes();
      const int ranks = std::accumulate(sizes.back().begin(), sizes.back().end(), 0);
      if (ranks < 2 || ranks > 40) continue;
      auto shape = std::make_shared<Shape>(shape_of(sizes, drawn.order(ranks)));
      if (!is_right(drawn.call(algorithm, collective, std::move(shape)), seed)) return;
    }
  });
}

// One within another, in every order of their parts' sizes that is worst for somebody; every root.
TEST(Nested, HierarchiesOfUnevenPartsAreRightForEveryRoot) {
  const std::vector<Sizes> all = {
      {{8, 4, 2}},
      {{3, 5, 1, 2}},
      {{1, 1, 1, 7}},
      {{1, 2, 3}},
      {{2, 1}, {8, 4, 2}},
      {{1, 3}, {3, 5, 1, 2}},
      {{3, 1}, {1, 1, 1, 7}},
      {{1, 2}, {2, 1, 3}, {1, 2, 3, 1, 1, 4}},
      {{2, 2}, {1, 2, 1, 3}, {3, 1, 5, 1, 1, 1, 2}},
      {{1, 2}, {2, 1, 1}, {1, 2, 1, 3}, {1, 3, 1, 2, 1, 1, 2}},
  };
  for_each_by_levels([&](int algorithm, Collective collective) {
    for (const Sizes& sizes : all) {
      const int ranks = std::accumulate(sizes.back().begin(), sizes.back().end(), 0);
      for (int turn = 0; turn < (has_root(collective) ? ranks : 6); ++turn) {
        const auto seed = static_cast<uint32_t>(turn);
        Drawn drawn(seed);
        auto shape = std::make_shared<Shape>(shape_of(sizes, drawn.order(ranks)));
        VerifiedCase call = drawn.call(algorithm, collective, std::move(shape));
        if (has_root(collective)) call.root = turn;
        if (!is_right(call, seed)) return;
      }
    }
  });
}

// Bytes that leave parts of a level, all together; of ranks that send some, how many there are.
struct Crossed {
  uint64_t bytes = 0;
  int ranks = 0;
};

Crossed crossed(const BuiltCase& built, const Hierarchy& hierarchy, int level) {
  Crossed all;
  for (size_t rank = 0; rank < built.schedules.size(); ++rank) {
    uint64_t bytes = 0;
    for (const Step& step : built.schedules[rank].steps)
      if (step.op == Op::kSend &&
          hierarchy.part_of(level, step.peer) != hierarchy.part_of(level, static_cast<int>(rank)))
        bytes += step.src.size;
    all.bytes += bytes;
    all.ranks += bytes > 0 ? 1 : 0;
  }
  return all;
}

// To be summed among N parts, each element takes N - 1 messages, and as many to be known in all of
// them; a block takes N - 1 to get everywhere. That is what crosses every level, and in an
// allreduce every rank takes its share out of its host.
TEST(Nested, TheLeastCrossesEveryLevel) {
  using enum Collective;
  constexpr uint64_t kCount = 997;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Drawn drawn(seed);
    const std::shared_ptr<const Shape> shape = drawn.shape(40);
    const int ranks = shape->hierarchy.places();
    const Hierarchy& hierarchy = shape->hierarchy;
    for (const Collective collective : {kAllreduce, kAllgather, kReduceScatter}) {
      const BuiltCase built = build_case({.collective = collective,
                                          .algorithm = find_algorithm("hierarchical"),
                                          .ranks = ranks,
                                          .count = kCount,
                                          .check = false,
                                          .shape = shape});
      const uint64_t vector =
          kCount * 4 * static_cast<uint64_t>(collective == kAllreduce ? 2 : ranks);
      for (int level = 0; level < hierarchy.depth(); ++level) {
        const Crossed found = crossed(built, hierarchy, level);
        EXPECT_EQ(found.bytes, static_cast<uint64_t>(hierarchy.parts(level) - 1) * vector)
            << name_of(collective) << ", level " << level << " of " << shape->name;
        const bool by_all = level > 0 || collective != kAllreduce || found.ranks == ranks;
        EXPECT_TRUE(by_all) << found.ranks << " of " << ranks << " ranks, " << shape->name;
      }
    }
  }
}

TEST(Nested, LeadersAreAloneBetweenThePartsOfEveryLevel) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Drawn drawn(seed);
    const std::shared_ptr<const Shape> shape = drawn.shape(40);
    const int ranks = shape->hierarchy.places();
    const BuiltCase built = build_case(
        {.algorithm = find_algorithm("leaders"), .ranks = ranks, .count = 1, .shape = shape});
    for (int level = 0; level < shape->hierarchy.depth(); ++level)
      EXPECT_EQ(crossed(built, shape->hierarchy, level).ranks, shape->hierarchy.parts(level))
          << "level " << level << " of " << shape->name;
  }
}

// Each block crosses the highest level once, by whatever ways it goes below.
TEST(Nested, BlocksForOneRankCrossTheHighestLevelOnce) {
  using enum Collective;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Drawn drawn(seed);
    const std::shared_ptr<const Shape> shape = drawn.shape(40);
    const int ranks = shape->hierarchy.places();
    const int top = shape->hierarchy.depth() - 1;
    const int root = drawn.below(ranks);
    const auto far_from = [&](int place) {
      const int part = shape->hierarchy.part_of(top, place);
      return static_cast<uint64_t>(ranks) - shape->hierarchy.members(top, part).size();
    };
    uint64_t pairs = 0;
    for (int place = 0; place < ranks; ++place) pairs += far_from(place);
    for (const auto& [name, collective, blocks] :
         {std::tuple("hierarchical", kAlltoall, pairs),
          std::tuple("leaders", kGather, far_from(root)),
          std::tuple("leaders", kScatter, far_from(root))}) {
      const BuiltCase built = build_case({.collective = collective,
                                          .algorithm = find_algorithm(name),
                                          .ranks = ranks,
                                          .count = 10,
                                          .root = root,
                                          .check = false,
                                          .shape = shape});
      EXPECT_EQ(crossed(built, shape->hierarchy, top).bytes, blocks * 40)
          << name << ' ' << name_of(collective) << " of " << shape->name;
    }
  }
}

}  // namespace
}  // namespace banyan::nested_test
