// Handles that are recognised after their object is gone, also while other threads look.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

namespace banyan::process_test {
namespace {

struct Thing {
  std::atomic<int> alive{1};
};

TEST(HandleTable, FindsWhatWasInsertedUntilItIsRemoved) {
  HandleTable table;
  int a = 0, b = 0;
  const uint64_t first = table.insert(&a);
  const uint64_t second = table.insert(&b);
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.find(first), &a);
  EXPECT_EQ(table.find(second), &b);
  EXPECT_EQ(table.remove(first), &a);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.pin(first).get(), nullptr);
  EXPECT_EQ(table.visit(first).get(), nullptr);
  EXPECT_EQ(table.remove(first), nullptr) << "removed twice";
  EXPECT_EQ(table.find(second), &b);
}

TEST(HandleTable, KnowsNoHandleThatItDidNotMake) {
  HandleTable table;
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.remove(uint64_t{2} << 32 | 1), nullptr) << "no block there yet";
  int thing = 0;
  const uint64_t handle = table.insert(&thing);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t guess = random();
    if (guess == handle) continue;
    ASSERT_EQ(table.find(guess), nullptr) << guess;
  }
  // Near misses: another generation at the same place, another place of the same generation.
  for (const uint64_t guess :
       {handle + 1, handle - 1, handle + (uint64_t{1} << 32), handle - (uint64_t{1} << 32),
        handle & 0xFFFFFFFF, handle | 0xFFFFF000, ~uint64_t{0}, uint64_t{0xFFFFFFFF}})
    EXPECT_EQ(table.find(guess), nullptr) << guess;
  EXPECT_EQ(table.find(handle), &thing);
}

// A place is used again, with handles that differ from all before.
TEST(HandleTable, GivesEveryObjectAHandleOfItsOwn) {
  HandleTable table;
  std::set<uint64_t> seen;
  std::vector<uint64_t> live;
  std::vector<int> things(1000);
  std::mt19937 random(2);
  for (size_t i = 0; i < things.size() * 5; ++i) {
    if (!live.empty() && random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_NE(table.remove(live.back()), nullptr);
      live.pop_back();
    }
    live.push_back(table.insert(&things[i % things.size()]));
    ASSERT_TRUE(seen.insert(live.back()).second) << "handle given out twice";
  }
  for (const uint64_t handle : seen)
    ASSERT_EQ(table.find(handle) != nullptr,
              std::find(live.begin(), live.end(), handle) != live.end());
}

TEST(HandleTable, WaitsForPinsOnlySoLong) {
  HandleTable table;
  int thing = 0;
  const uint64_t handle = table.insert(&thing);
  EXPECT_TRUE(table.wait_for_pins(handle, 0, Clock::now()));
  {
    const HandleTable::Visit visit = table.visit(handle);
    EXPECT_NE(visit.get(), nullptr);
    EXPECT_FALSE(table.wait_for_pins(handle, 0, Clock::now()));
  }
  EXPECT_TRUE(table.wait_for_pins(handle, 0, Clock::now()));
  HandleTable::Pin first = table.pin(handle), second = table.pin(handle);
  EXPECT_TRUE(table.wait_for_pins(handle, 2, Clock::now()));
  EXPECT_FALSE(table.wait_for_pins(handle, 1, deadline_after(0.01)));
  std::thread other([&] { first = {}; });
  EXPECT_TRUE(table.wait_for_pins(handle, 1, deadline_after(20)));
  other.join();
  second = {};
  EXPECT_EQ(table.remove(handle), &thing);
  EXPECT_TRUE(table.wait_for_pins(handle, 0, Clock::now())) << "none is left of what is gone";
}

// remove() returns when nobody holds a pin; a pinned object is whole; a pin after it gets nothing.
TEST(HandleTable, NobodyPinsWhatIsBeingRemoved) {
  HandleTable table;
  constexpr int kRounds = 100;
  std::atomic<uint64_t> current{0};
  std::atomic<bool> stop{false};
  std::atomic<int> pinned{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader)
    readers.emplace_back([&] {
      while (!stop.load()) {
        const uint64_t handle = current.load();
        const HandleTable::Pin pin = table.pin(handle);
        const auto* thing = static_cast<Thing*>(pin.get());
        if (thing == nullptr) {
          std::this_thread::yield();
          continue;
        }
        EXPECT_EQ(thing->alive.load(), 1);
        ++pinned;
        EXPECT_EQ(thing->alive.load(), 1);
      }
    });
  for (int round = 0; round < kRounds || pinned.load() == 0; ++round) {
    auto thing = std::make_unique<Thing>();
    const uint64_t handle = table.insert(thing.get());
    current.store(handle);
    std::this_thread::yield();
    ASSERT_EQ(table.remove(handle), thing.get());
    thing->alive.store(0);
    ASSERT_EQ(table.pin(handle).get(), nullptr);
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(pinned.load(), 0);
}

TEST(HandleTable, OnlyOneOfTwoRemoversGetsTheObject) {
  HandleTable table;
  for (int round = 0; round < 200; ++round) {
    int thing = 0;
    const uint64_t handle = table.insert(&thing);
    std::atomic<int> got{0};
    std::thread other([&] { got += table.remove(handle) != nullptr ? 1 : 0; });
    got += table.remove(handle) != nullptr ? 1 : 0;
    other.join();
    ASSERT_EQ(got.load(), 1);
  }
}

TEST(HandleTable, GrowsBeyondABlock) {
  HandleTable table;
  std::vector<int> things(2000);
  std::vector<uint64_t> handles;
  for (int& thing : things) handles.push_back(table.insert(&thing));
  for (size_t i = 0; i < things.size(); ++i) ASSERT_EQ(table.find(handles[i]), &things[i]);
}

TEST(ProcessState, SharesAnObjectWhileAnybodyHoldsIt) {
  ProcessState state;
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  std::shared_ptr<void> first = state.share("a", make);
  EXPECT_EQ(state.share("a", make), first);
  EXPECT_NE(state.share("b", make), first);
  EXPECT_EQ(made, 2);
  first.reset();
  const auto again = state.share("a", make);
  EXPECT_EQ(*static_cast<int*>(again.get()), 3);
}

TEST(ProcessState, IsAskedForTheFirstTimeOnce) {
  ProcessState state;
  EXPECT_TRUE(state.first_time("this"));
  EXPECT_TRUE(state.first_time("that"));
  EXPECT_FALSE(state.first_time("this"));
}

TEST(ProcessState, NumbersOperationsApart) {
  ProcessState state;
  const int first = state.next_operation();
  EXPECT_GT(first, 4) << "the predefined operations come before";
  EXPECT_NE(first, state.next_operation());
  EXPECT_EQ(&process(), &process());
}

}  // namespace
}  // namespace banyan::process_test
