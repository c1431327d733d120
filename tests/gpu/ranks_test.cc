// Ranks of one host sum memory of the host that a real GPU can use, and memory of the GPU beside
// it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/cuda.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test {
namespace {

constexpr size_t kMost = 300'000;  // floats: several slots, and what is read in one copy
constexpr size_t kBytes = 4 * kMost * sizeof(float);
constexpr int kRanks = 2;

struct Kept {
  std::string name;
  Held held;
};

// Whole numbers, whose sums are exact.
float number(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 1000);
}

void check(Rank& self, const float* got, size_t count, const auto& wanted) {
  for (size_t i = 0; i < count; ++i)
    if (got[i] != wanted(i))
      return self.fail(fmt::format("element {} of {} is {}, not {}", i, count, got[i], wanted(i)));
}

// The buffers are parts of one piece of memory; each call finds its input as it was.
void call_all(Rank& self, banyan_comm_t comm, const Kept& kept, size_t count) {
  auto* send = reinterpret_cast<float*>(kept.held.memory());
  float* recv = send + kMost;
  const auto mine = [&](size_t i) { return number(self.rank(), i); };
  const auto sum = [](size_t i) { return number(0, i) + number(1, i); };
  const auto all = [&](size_t i) { return number(static_cast<int>(i / count), i % count); };
  for (size_t i = 0; i < count; ++i) send[i] = mine(i);
  const std::string what = fmt::format("{} of {}", kept.name, count);
  self.where(what);
  for (int times = 0; times < 3; ++times) {
    self.expect_ok(banyan_allreduce(send, recv, count, BANYAN_FLOAT32, BANYAN_SUM, comm), what);
    check(self, recv, count, sum);
    self.expect_ok(banyan_allgather(send, recv, count, BANYAN_FLOAT32, comm), what);
    check(self, recv, kRanks * count, all);
    self.expect_ok(banyan_broadcast(send, recv, count, BANYAN_FLOAT32, 1, comm), what);
    check(self, recv, count, [](size_t i) { return number(1, i); });
    if (self.rank() == 0) {
      self.expect_ok(banyan_send(send, count, BANYAN_FLOAT32, 1, comm), what);
    } else {
      self.expect_ok(banyan_recv(recv, count, BANYAN_FLOAT32, 0, comm), what);
      check(self, recv, count, [](size_t i) { return number(0, i); });
    }
    check(self, send, count, mine);
  }
  self.expect_ok(banyan_allreduce(send, send, count, BANYAN_FLOAT32, BANYAN_SUM, comm), what);
  check(self, send, count, sum);
}

// Each rank makes its own memory: a child has no use for a driver that its parent has opened.
void body(Rank& self, banyan_comm_t comm) {
  Gpu gpu;
  if (!self.expect(gpu.refused().empty(), gpu.refused())) return;
  std::vector<std::byte> own(kBytes);
  void* shared = nullptr;
  self.expect_ok(banyan_mem_alloc(comm, &shared, kBytes), "banyan_mem_alloc");
  {
    std::vector<Kept> all;
    all.push_back({"pinned", gpu.pinned(kBytes)});
    all.push_back({"registered", gpu.registered(own.data(), kBytes)});
    all.push_back({"registered, of banyan_mem_alloc", gpu.registered(shared, kBytes)});
    if (gpu.has_managed_memory()) all.push_back({"managed", gpu.managed(kBytes)});
    const Held device = gpu.plain(kBytes);
    for (const Kept& kept : all) {
      if (!self.expect(kept.held.memory() != nullptr, kept.name + ": " + gpu.refused())) return;
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{40'000}, kMost})
        call_all(self, comm, kept, count);
      // One rank has its sums in the memory of the GPU, and the others know nothing of it.
      void* sums = self.rank() == 0 ? device.memory() : kept.held.memory() + kBytes / 2;
      self.expect_ok(
          banyan_allreduce(kept.held.memory(), sums, 8, BANYAN_FLOAT32, BANYAN_SUM, comm),
          kept.name);
    }
    self.verify(comm, 1000, 1);
  }
  self.expect_ok(banyan_mem_free(comm, shared), "banyan_mem_free");
}

class GpuRanks : public WithRanks {};

// By the ways that the library weighs, and where the kernel copies whatever it can.
TEST_P(GpuRanks, SumMemoryOfTheHost) {
  run_joined(kRanks, body);
  run_joined(kRanks, body, {.environment = {{"BANYAN_SINGLE_COPY", "4K"}}});
}

// Processes first: what forks them must not have opened the driver.
INSTANTIATE_TEST_SUITE_P(All, GpuRanks, testing::Values(Kind::kProcesses, Kind::kThreads),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

}  // namespace
}  // namespace banyan::test
