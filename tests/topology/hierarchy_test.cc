// Levels are partitions, each within the next; what is none is refused by name.
// SPDX-License-Identifier: Apache-2.0

#include "topology/hierarchy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace banyan::hierarchy_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Hierarchy::Level in_hosts{"host", {{0}, {1, 2}, {3, 4, 5}}};
const Hierarchy::Level in_racks{"rack", {{0, 1, 2}, {3, 4, 5}}};

std::string refusal_of(int places, const std::vector<Hierarchy::Level>& levels) {
  const Result<Hierarchy> made = Hierarchy::make(places, levels);
  if (made.ok()) return "";
  EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
  return std::string(made.status().message());
}

TEST(Hierarchy, IsFlatWithoutLevels) {
  const Result<Hierarchy> flat = Hierarchy::make(4, {});
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ(flat->depth(), 0);
  EXPECT_EQ(*flat, Hierarchy());
  EXPECT_EQ(flat->text(), "flat");
  EXPECT_EQ(Hierarchy::of_labels("host", {}), Hierarchy());
}

TEST(Hierarchy, HasIrregularLevels) {
  const Result<Hierarchy> made = Hierarchy::make(6, {in_hosts, in_racks});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->places(), 6);
  EXPECT_EQ(made->depth(), 2);
  EXPECT_EQ(made->name(1), "rack");
  EXPECT_EQ(made->parts(0), 3);
  EXPECT_EQ(made->parts(1), 2);
  EXPECT_THAT(made->members(0, 1), ElementsAre(1, 2));
  EXPECT_THAT(made->members(1, 0), ElementsAre(0, 1, 2));
  EXPECT_EQ(made->part_of(0, 5), 2);
  EXPECT_EQ(made->part_of(1, 5), 1);
  EXPECT_EQ(made->largest_part(0), 3);
  EXPECT_EQ(made->smallest_part(0), 1);
  EXPECT_EQ(made->text(), "3 hosts of 1 to 3, 2 racks of 3");
}

// However a caller lists them, every rank gets the same value.
TEST(Hierarchy, NumbersPartsByTheirLowestPlaces) {
  const Result<Hierarchy> listed = Hierarchy::make(6, {{"host", {{5, 1, 3}, {4, 0}, {2}}}});
  ASSERT_TRUE(listed.ok());
  EXPECT_THAT(listed->members(0, 0), ElementsAre(0, 4));
  EXPECT_THAT(listed->members(0, 1), ElementsAre(1, 3, 5));
  EXPECT_THAT(listed->members(0, 2), ElementsAre(2));
  const std::vector<int> labels{7, -3, 100, -3, 7, -3};
  EXPECT_EQ(Hierarchy::of_labels("host", labels), *listed);
}

TEST(Hierarchy, RefusesWhatIsNoPartition) {
  EXPECT_THAT(refusal_of(0, {}), HasSubstr("0 places"));
  EXPECT_THAT(refusal_of(2, {{"host", {{0}}}}), HasSubstr("level 'host': place 1 is in no part"));
  EXPECT_THAT(refusal_of(2, {{"host", {{0, 1}, {1}}}}),
              HasSubstr("place 1 is in parts 0 and 1; valid: each place in one part"));
  EXPECT_THAT(refusal_of(2, {{"host", {{0, 0, 1}}}}), HasSubstr("place 0 is in parts 0 and 0"));
  EXPECT_THAT(refusal_of(2, {{"host", {{0, 1, 2}}}}),
              HasSubstr("place 2 in part 0; valid: 0 to 1"));
  EXPECT_THAT(refusal_of(2, {{"host", {{-1, 0, 1}}}}), HasSubstr("place -1"));
  EXPECT_THAT(refusal_of(2, {{"host", {{0, 1}, {}}}}), HasSubstr("part 1 has no place"));
}

TEST(Hierarchy, RefusesLevelsThatCross) {
  EXPECT_THAT(refusal_of(6, {in_racks, in_hosts}),
              HasSubstr("level 'host': places 0 and 1 are in different parts, but in one part of "
                        "level 'rack'"));
  EXPECT_THAT(refusal_of(4, {{"host", {{0, 1}, {2, 3}}}, {"rack", {{0, 1, 2}, {3}}}}),
              HasSubstr("places 2 and 3"));
}

TEST(Hierarchy, SimplifiedKeepsTheLevelsThatSaySomething) {
  const Hierarchy::Level alone{"core", {{0}, {1}, {2}, {3}, {4}, {5}}};
  const Hierarchy::Level together{"site", {{0, 1, 2, 3, 4, 5}}};
  Hierarchy::Level again = in_hosts;
  again.name = "chassis";
  const Result<Hierarchy> full = Hierarchy::make(6, {alone, in_hosts, again, in_racks, together});
  const Result<Hierarchy> wanted = Hierarchy::make(6, {in_hosts, in_racks});
  ASSERT_TRUE(full.ok() && wanted.ok());
  EXPECT_EQ(full->simplified(), *wanted);
  EXPECT_FALSE(full->is_simple());
  EXPECT_TRUE(wanted->is_simple());
  EXPECT_TRUE(Hierarchy().is_simple());
  EXPECT_EQ(Hierarchy::make(6, {together})->simplified(), Hierarchy());
}

TEST(Hierarchy, HasARingThatEntersEachPartOnce) {
  EXPECT_THAT(Hierarchy().ring(), ElementsAre());
  const Result<Hierarchy> dealt = Hierarchy::make(
      8, {{"host", {{0, 4}, {1, 5}, {2, 6}, {3, 7}}}, {"rack", {{0, 2, 4, 6}, {1, 3, 5, 7}}}});
  ASSERT_TRUE(dealt.ok());
  EXPECT_THAT(dealt->ring(), ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_THAT(Hierarchy::make(6, {in_hosts, in_racks})->ring(), ElementsAre(0, 1, 2, 3, 4, 5));
  // What follows from the levels is no ring of its own.
  EXPECT_EQ(dealt->in_ring({0, 4, 2, 6, 1, 5, 3, 7}), *dealt);
  EXPECT_EQ(Hierarchy().in_ring({0, 1, 2}), Hierarchy());
}

TEST(Hierarchy, KeepsTheRingThatItWasTold) {
  const std::vector<int> labels{0, 1, 2, 3};
  const Hierarchy each = Hierarchy::of_labels("host", labels);
  const Hierarchy told = each.in_ring({0, 2, 1, 3});
  EXPECT_NE(told, each);
  EXPECT_TRUE(told.has_own_ring());
  EXPECT_THAT(told.ring(), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(told.simplified().ring(), ElementsAre(0, 2, 1, 3));  // although no level is left
  EXPECT_EQ(told.simplified().depth(), 0);
  EXPECT_EQ(told.in_ring({0, 1, 2, 3}), each);
}

TEST(Hierarchy, OfManyPlacesIsMadeOfLabels) {
  constexpr int kPlaces = 65536;
  std::vector<int> labels(kPlaces);
  std::iota(labels.begin(), labels.end(), 0);
  for (int& label : labels) label /= 8;
  const Hierarchy made = Hierarchy::of_labels("host", labels);
  EXPECT_EQ(made.parts(0), 8192);
  EXPECT_EQ(made.members(0, 8191).front(), 65528);
  EXPECT_EQ(made.text(), "8192 hosts of 8");
}

}  // namespace
}  // namespace banyan::hierarchy_test
