// Communicators from beginning to end: the ways to meet, to split and to leave, and what is left.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ranks/ranks_fixture.h"
#include "tests/support/free_port.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::lives_test {
namespace {

class Lives : public WithRanks {};

int gather_through(const void* send, void* recv, size_t bytes, void* context) {
  auto* self = static_cast<Rank*>(context);
  constexpr size_t kMost = 1024;
  for (size_t from = 0; from < bytes; from += kMost) {
    const size_t part = std::min(kMost, bytes - from);
    std::vector<std::byte> all(part * static_cast<size_t>(self->size()));
    self->gather(static_cast<const std::byte*>(send) + from, all.data(), part);
    for (int peer = 0; peer < self->size(); ++peer)
      std::memcpy(static_cast<std::byte*>(recv) + static_cast<size_t>(peer) * bytes + from,
                  all.data() + static_cast<size_t>(peer) * part, part);
  }
  return 0;
}

int refuse(const void*, void*, size_t, void*) {
  return 3;
}

TEST_P(Lives, BeginWithTheCallersExchange) {
  for (const int size : {1, 4})
    run(size, [](Rank& self) {
      const banyan_exchange_t exchange{sizeof(banyan_exchange_t), self.rank(), self.size(),
                                       gather_through, &self};
      banyan_comm_t comm = nullptr;
      if (!self.expect_ok(banyan_comm_init_exchange(&comm, &exchange, nullptr), "init_exchange"))
        return;
      self.verify(comm, 1000, 1);
      self.leave(comm);
      banyan_exchange_t bad = exchange;
      bad.allgather = refuse;
      comm = nullptr;
      self.expect_code(banyan_comm_init_exchange(&comm, &bad, nullptr), BANYAN_ERR_REMOTE,
                       "an exchange that fails");
      self.expect(comm == nullptr, "no communicator after a failure");
      bad = exchange;
      bad.rank = self.size();
      self.expect_code(banyan_comm_init_exchange(&comm, &bad, nullptr), BANYAN_ERR_INVALID_ARGUMENT,
                       "a rank that is none");
      bad = exchange;
      bad.size = 0;
      self.expect_code(banyan_comm_init_exchange(&comm, &bad, nullptr), BANYAN_ERR_INVALID_ARGUMENT,
                       "size 0");
    });
}

void set_variables(const Rank& self, const std::string& address) {
  setenv("BANYAN_RANK", std::to_string(self.rank()).c_str(), 1);
  setenv("BANYAN_SIZE", std::to_string(self.size()).c_str(), 1);
  setenv("BANYAN_ADDRESS", address.c_str(), 1);
}

// Variables belong to a process, so threads cannot be told apart by them.
TEST_P(Lives, BeginWithTheEnvironment) {
  if (GetParam() == Kind::kThreads)
    GTEST_SKIP() << "variables belong to a process: threads cannot differ in them";
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  run(3, [&](Rank& self) {
    set_variables(self, address);
    setenv("BANYAN_SECRET", "of this test", 1);
    for (uint64_t life = 0; life < 2; ++life) {  // may be called again, by all ranks each time
      banyan_comm_t comm = nullptr;
      if (!self.expect_ok(banyan_comm_init_env(&comm, nullptr), "init_env")) return;
      int rank = -1, size = -1;
      self.expect_ok(banyan_comm_rank(comm, &rank), "rank");
      self.expect_ok(banyan_comm_size(comm, &size), "size");
      self.expect(rank == self.rank() && size == self.size(), "the place that was asked for");
      self.verify(comm, 100, life);
      self.leave(comm);
    }
    self.meet();
    banyan_comm_t comm = nullptr;
    setenv("BANYAN_RANK", "one", 1);
    self.expect_code(banyan_comm_init_env(&comm, nullptr), BANYAN_ERR_INVALID_ARGUMENT,
                     "a rank that is no number");
    self.expect(std::string(banyan_last_error(nullptr)).find("BANYAN_RANK") != std::string::npos,
                banyan_last_error(nullptr));
    for (const char* name : {"BANYAN_RANK", "BANYAN_SIZE", "BANYAN_ADDRESS"}) unsetenv(name);
    self.expect_code(banyan_comm_init_env(&comm, nullptr), BANYAN_ERR_INVALID_USAGE,
                     "no launcher at all");
  });
}

// Rank 0's second call begins when its first one waits, which must not end it.
TEST_P(Lives, BeginOneAfterTheOtherWhereTwoBeginAtOnce) {
  if (GetParam() == Kind::kThreads)
    GTEST_SKIP() << "variables belong to a process: threads cannot differ in them";
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  run(2, [&](Rank& self) {
    set_variables(self, address);
    constexpr auto kAWhile = std::chrono::milliseconds(200);
    banyan_comm_t first = nullptr;
    banyan_comm_t second = nullptr;
    banyan_result_t result = BANYAN_SUCCESS;
    if (self.rank() == 1) std::this_thread::sleep_for(3 * kAWhile);
    std::thread other([&] { result = banyan_comm_init_env(&first, nullptr); });
    if (self.rank() == 0) std::this_thread::sleep_for(kAWhile);
    if (self.rank() == 1) other.join();
    self.expect_ok(banyan_comm_init_env(&second, nullptr), "the second init_env");
    if (self.rank() == 0) other.join();
    if (!self.expect_ok(result, "the first init_env") || second == nullptr) return;
    for (const auto& [comm, mine] : {std::pair(first, 1.0F), std::pair(second, 2.0F)}) {
      float sum = mine;
      self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM, comm), "a sum");
      self.expect(sum == 2 * mine, "both are in the same communicator");
      self.leave(comm);
    }
  });
}

TEST_P(Lives, BeginWithTheDefaultByItsNameToo) {
  run(3, [](Rank& self) {
    banyan_config_t config = BANYAN_CONFIG_INIT;
    if (self.rank() == 1) config.determinism = BANYAN_DETERMINISTIC;
    banyan_comm_t comm = self.join(&config);
    if (comm != nullptr) self.leave(comm);
  });
}

TEST_P(Lives, UseAnIdOnlyOnce) {
  run(2, [](Rank& self) {
    banyan_unique_id_t id{};
    if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
    self.share(&id, sizeof id);
    banyan_comm_t comm = nullptr;
    if (!self.expect_ok(banyan_comm_init(&comm, 2, &id, self.rank(), nullptr), "init")) return;
    self.meet();
    banyan_comm_t again = nullptr;
    self.expect_code(banyan_comm_init(&again, 2, &id, self.rank(), nullptr),
                     BANYAN_ERR_INVALID_USAGE, "a second use");
    self.verify(comm, 10, 1);
    self.leave(comm);
  });
}

TEST_P(Lives, SplitByColourAndKey) {
  run_joined(5, [](Rank& self, banyan_comm_t comm) {
    // Even and odd ranks, the last in nobody's colour; keys turn the order around.
    const int color = self.rank() == 4 ? BANYAN_NO_COLOR : self.rank() % 2;
    banyan_comm_t child = nullptr;
    if (!self.expect_ok(banyan_comm_split(comm, color, -self.rank(), &child, nullptr), "split"))
      return;
    if (color == BANYAN_NO_COLOR) {
      self.expect(child == nullptr, "no colour, no child");
    } else {
      int rank = -1, size = -1;
      self.expect_ok(banyan_comm_rank(child, &rank), "rank");
      self.expect_ok(banyan_comm_size(child, &size), "size");
      self.expect(size == 2 && rank == (self.rank() < 2 ? 1 : 0), fmt::format("rank {}", rank));
      int64_t members[2] = {-1, -1};
      const int64_t me = self.rank();
      self.expect_ok(banyan_allgather(&me, members, 1, BANYAN_INT64, child), "allgather");
      self.expect(members[0] == color + 2 && members[1] == color, "members in the order of keys");
      self.leave(child);
    }
    self.verify(comm, 100, 2);
  });
}

TEST_P(Lives, OfAChildGoOnAfterItsParent) {
  run(4, [](Rank& self) {
    banyan_comm_t parent = self.join(), child = nullptr, grandchild = nullptr;
    if (parent == nullptr) return;
    if (!self.expect_ok(banyan_comm_split(parent, 7, 0, &child, nullptr), "split")) return;
    self.leave(parent);
    self.verify(child, 1000, 1);
    if (!self.expect_ok(banyan_comm_split(child, self.rank() / 2, 0, &grandchild, nullptr),
                        "split of a child"))
      return;
    self.leave(child);
    int64_t sum = 1;
    self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_INT64, BANYAN_SUM, grandchild), "sum");
    self.expect(sum == 2, "a grandchild of two");
    self.leave(grandchild);
  });
}

TEST_P(Lives, SplitRefusesWrongArgumentsLocally) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    banyan_comm_t child = nullptr;
    self.expect_code(banyan_comm_split(comm, -2, 0, &child, nullptr), BANYAN_ERR_INVALID_ARGUMENT,
                     "a colour below -1");
    self.expect_code(banyan_comm_split(comm, 0, 0, nullptr, nullptr), BANYAN_ERR_INVALID_ARGUMENT,
                     "no place for the child");
    self.verify(comm, 10, 1);
  });
}

// One rank's config is wrong: it is told so, the others that it failed, and all go on.
TEST_P(Lives, SplitSurvivesTheBadConfigOfOneRank) {
  for (const int wrong : {0, 2})
    run_joined(3, [&](Rank& self, banyan_comm_t comm) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.init_timeout_s = 4 * time_factor();  // so long lives what nobody comes to
      if (self.rank() == wrong) config.timeout_s = -1;
      const TimePoint begin = Clock::now();
      banyan_comm_t child = nullptr;
      const banyan_result_t result = banyan_comm_split(comm, 0, 0, &child, &config);
      self.expect_code(result,
                       self.rank() == wrong ? BANYAN_ERR_INVALID_ARGUMENT : BANYAN_ERR_REMOTE,
                       fmt::format("a split with a timeout below 0 on rank {}", wrong));
      self.expect(Clock::now() - begin < std::chrono::seconds(2) * time_factor(),
                  "the others wait for a rank that does not come");
      self.expect(child == nullptr, "no child");
      self.verify(comm, 10, 1);
    });
}

TEST_P(Lives, OfManyChildrenLeaveNothing) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Holdings before;
    for (int cycle = 0; cycle < 50; ++cycle) {
      banyan_comm_t child = nullptr;
      if (!self.expect_ok(
              banyan_comm_split(comm, cycle % 3 == self.rank() ? 1 : 0, 0, &child, nullptr),
              "split"))
        return;
      int64_t value = 1;
      self.expect_ok(banyan_allreduce(&value, &value, 1, BANYAN_INT64, BANYAN_SUM, child), "sum");
      self.leave(child);
      if (cycle == 1) {
        self.meet();
        before = holdings();
        self.meet();
      }
    }
    self.meet();
    const std::string left = expect_released(before, 1);
    self.expect(left.empty(), "after 48 more children: " + left);
    const int maps = holdings().maps - before.maps;
    // The sanitizers' own come on top.
    self.expect(maps < (kThreadSanitizer || kAddressSanitizer ? 144 : 40),
                fmt::format("{} more mappings", maps));
    self.meet();
  });
}

TEST_P(Lives, HaveMemoryThatPeersReadInPlace) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{3000}, size_t{700000}}) {
      void *send = nullptr, *recv = nullptr;
      if (!self.expect_ok(banyan_mem_alloc(comm, &send, count * 4), "mem_alloc")) return;
      if (!self.expect_ok(banyan_mem_alloc(comm, &recv, count * 4), "mem_alloc")) return;
      auto* in = static_cast<int32_t*>(send);
      auto* out = static_cast<int32_t*>(recv);
      for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < count; ++i) in[i] = self.rank() + static_cast<int32_t>(i) + round;
        self.expect_ok(banyan_allreduce(send, recv, count, BANYAN_INT32, BANYAN_SUM, comm), "sum");
        for (size_t i = 0; i < count; ++i)
          if (out[i] != 3 * (static_cast<int32_t>(i) + round) + 3)
            return self.fail(fmt::format("element {} of {} is {}", i, count, out[i]));
      }
      self.expect_ok(banyan_mem_free(comm, send), "mem_free");
      self.expect_code(banyan_mem_free(comm, send), BANYAN_ERR_INVALID_ARGUMENT, "freed twice");
      if (count < 1000) continue;
      self.expect_ok(banyan_mem_free(comm, recv), "mem_free");  // the first one ends with comm
    }
  });
}

TEST_P(Lives, HaveAScalarOfEveryRankInASum) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    const float scalar = static_cast<float>(self.rank()) + 0.5F;
    banyan_op_t op = -1;
    self.expect_ok(banyan_op_create_premulsum(comm, &scalar, BANYAN_FLOAT32, &op), "premulsum");
    float value = 2, sum = 0;
    for (int round = 0; round < 2; ++round) {
      self.expect_ok(banyan_allreduce(&value, &sum, 1, BANYAN_FLOAT32, op, comm), "allreduce");
      self.expect(sum == 9, fmt::format("the sum is {}", sum));
    }
    self.expect_ok(banyan_op_destroy(comm, op), "op_destroy");
    self.expect_code(banyan_allreduce(&value, &sum, 1, BANYAN_FLOAT32, op, comm),
                     BANYAN_ERR_INVALID_ARGUMENT, "a destroyed operation");
  });
}

TEST_P(Lives, EndForEverybodyAtTheirOwnPace) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.verify(comm, 10, 1);
    self.expect_ok(banyan_comm_finalize(comm), "finalize");
    // One destroys at once; the others find nothing wrong with that.
    if (self.rank() != 1) {
      self.meet();
      banyan_result_t error = BANYAN_ERR_INTERNAL;
      self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
      self.expect_code(error, BANYAN_SUCCESS, "the state after finalize");
    }
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
    if (self.rank() == 1) self.meet();
  });
}

TEST_P(Lives, OneAfterTheOtherLeaveNothing) {
  run(3, [](Rank& self) {
    Holdings before;
    for (uint64_t life = 0; life < 12; ++life) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      self.verify(comm, 100, life);
      self.leave(comm);
      if (life != 2) continue;
      self.meet();
      before = holdings();
      self.meet();
    }
    self.meet();
    const std::string left = expect_released(before, 1);
    self.expect(left.empty(), "after nine more lives: " + left);
    self.meet();
  });
}

// Everything that a child may try with what belongs to its parent; the number of surprises.
int surprises_of_a_child(banyan_comm_t parents, banyan_request_t request) {
  int surprises = 0;
  const auto refused = [&](banyan_result_t result) {
    const bool said =
        std::string_view(banyan_last_error(nullptr)).find("fork()") != std::string::npos;
    if (result != BANYAN_ERR_INVALID_USAGE || !said) ++surprises;
  };
  int value = 0, done = 0;
  banyan_result_t error = BANYAN_SUCCESS;
  banyan_comm_t comm = nullptr;
  refused(banyan_allreduce(&value, &value, 1, BANYAN_INT32, BANYAN_SUM, parents));
  refused(banyan_comm_rank(parents, &value));
  refused(banyan_comm_async_error(parents, &error));
  refused(banyan_comm_split(parents, 0, 0, &comm, nullptr));
  refused(banyan_request_start(request));
  refused(banyan_request_test(request, &done));
  refused(banyan_request_destroy(request));
  refused(banyan_comm_finalize(parents));
  refused(banyan_comm_abort(parents));
  refused(banyan_comm_destroy(parents));

  banyan_unique_id_t id;
  if (banyan_get_unique_id(&id) != BANYAN_SUCCESS ||
      banyan_comm_init(&comm, 1, &id, 0, nullptr) != BANYAN_SUCCESS ||
      banyan_barrier(comm) != BANYAN_SUCCESS || banyan_comm_finalize(comm) != BANYAN_SUCCESS ||
      banyan_comm_destroy(comm) != BANYAN_SUCCESS)
    ++surprises;
  refused(banyan_barrier(parents));
  return surprises;
}

TEST_P(Lives, OfAParentAreNotItsChilds) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "a child has one thread of its parent only";
  if (kThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer does not survive fork() beside threads";
  // The sanitizer of clang 14 holds none of its allocator's locks over fork(), and the monitor
  // thread may have one: then the child waits for it for ever, within the sanitizer (6 of 112
  // runs).
  if (kAddressSanitizer)
    GTEST_SKIP() << "a child may inherit a lock of the address sanitizer's allocator";
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    int64_t in = 1, out = 0;
    const banyan_call_t call = call_of([&](banyan_call_t& made) {
      made.collective = BANYAN_ALLREDUCE;
      made.send = &in;
      made.recv = &out;
      made.count = 1;
      made.datatype = BANYAN_INT64;
    });
    banyan_request_t request = nullptr;
    if (!self.expect_ok(banyan_request_create(comm, &call, &request), "create")) return;
    for (int round = 0; round < 3; ++round) {
      const pid_t child = fork();
      if (child == 0) _exit(surprises_of_a_child(comm, request));
      int status = -1;
      waitpid(child, &status, 0);
      self.expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  fmt::format("the child ended with {:#x}", status));
      self.verify(comm, 1000, static_cast<uint64_t>(round));
    }
    self.expect_ok(banyan_request_start(request), "start");
    self.expect_ok(banyan_request_wait(request), "wait");
    self.expect(out == self.size(), "the sum of the parents");
    self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Lives, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::lives_test
