// Buffers that are moved to a GPU for the tests of ranks: are they, and is it seen what a call may
// not write?
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "banyan/banyan.h"
#include "tests/cuda/moved/moved_buffers.h"
#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

class Moved : public WithStandinCuda {};

uint64_t address_in(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

TEST_F(Moved, BuffersComeAndGo) {
  const std::vector<uint8_t> send = {1, 2, 3};
  std::vector<uint8_t> recv = {4, 5};
  MovedBuffers moved(0, {send.data(), send.size()}, {recv.data(), recv.size()});
  ASSERT_NE(moved.send(), send.data());
  ASSERT_NE(moved.recv(), recv.data());
  EXPECT_EQ(address_in(moved.send()) % 64, address_in(send.data()) % 64);
  moved.bring_in();
  std::vector<uint8_t> seen(3);
  standin_.peek(seen.data(), address_in(moved.send()), 3);
  EXPECT_EQ(seen, send);
  const std::vector<uint8_t> result = {7, 8};
  standin_.poke(address_in(moved.recv()), result.data(), 2);
  moved.take_out();
  EXPECT_EQ(recv, result);
}

TEST_F(Moved, BuffersOverlapAsTheyDid) {
  std::vector<uint8_t> both(100);
  std::iota(both.begin(), both.end(), uint8_t{0});
  const std::vector<uint8_t> before = both;
  MovedBuffers moved(1, {both.data(), 100}, {both.data() + 10, 5});
  moved.bring_in();
  EXPECT_EQ(address_in(moved.recv()), address_in(moved.send()) + 10);
  moved.take_out();
  EXPECT_EQ(both, before);
}

TEST_F(Moved, NothingIsMovedOfNothing) {
  int word = 0;
  MovedBuffers moved(0, {nullptr, 8}, {&word, 0});
  moved.bring_in();
  EXPECT_EQ(moved.send(), nullptr);
  EXPECT_EQ(moved.recv(), &word);
  moved.take_out();
}

TEST_F(Moved, WhatMayNotBeWrittenIsSeen) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto written = [&](bool input, ptrdiff_t at) {
    std::vector<uint8_t> send(8), recv(8);
    MovedBuffers moved(0, {send.data(), 8}, {recv.data(), 8});
    moved.bring_in();
    const uint8_t byte = 1;
    const void* begin = input ? moved.send() : moved.recv();
    standin_.poke(address_in(begin) + static_cast<uint64_t>(at), &byte, 1);
    moved.take_out();
  };
  written(false, 0);
  EXPECT_DEATH(written(true, 3), "what it reads");
  EXPECT_DEATH(written(false, 8), "behind its buffer");
  EXPECT_DEATH(written(false, -1), "before its buffer");
}

// The program is linked as those of the ranks are.
TEST_F(Moved, CallsGetMemoryOfGpus) {
  banyan_unique_id_t id;
  banyan_comm_t comm = nullptr;
  ASSERT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_comm_init(&comm, 1, &id, 0, nullptr), BANYAN_SUCCESS);
  const long before = standin_.calls("cuMemAlloc");
  const std::vector<float> send = {1.5F, -2};
  std::vector<float> recv(2);
  EXPECT_EQ(banyan_allreduce(send.data(), recv.data(), 2, BANYAN_FLOAT32, BANYAN_SUM, comm),
            BANYAN_SUCCESS);
  EXPECT_EQ(recv, send);
  EXPECT_EQ(standin_.calls("cuMemAlloc"), before + 2);
  EXPECT_EQ(banyan_comm_finalize(comm), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

}  // namespace
}  // namespace banyan::test
