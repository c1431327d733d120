// Memory that a rank cannot have for a call: all ranks are told, and nothing of a group has moved.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "src/c_api/arguments.h"
#include "src/communicator/owner.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/sanitizers.h"

namespace {

// Allocations of this thread that go well before one does not; below 0: all do.
thread_local int allocations_left = -1;

}  // namespace

// The compiler must not look into them, where new and free() do not belong together.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// As std::stable_sort asks, which does without.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  if (allocations_left >= 0 && allocations_left-- == 0) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace banyan::test::memory_test {
namespace {

class Memory : public WithRanks {};

void expect_failed(Rank& self, banyan_comm_t comm, int culprit) {
  banyan_result_t error = BANYAN_SUCCESS;
  self.wait_until([&] {
    self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
    return error != BANYAN_SUCCESS;
  });
  self.expect_code(error, BANYAN_ERR_SYSTEM, "what async_error says");
  int failed = -2;
  self.expect_ok(banyan_comm_failed_rank(comm, &failed), "failed_rank");
  self.expect(failed == culprit, fmt::format("failed_rank is {}", failed));
  self.expect_code(banyan_barrier(comm), BANYAN_ERR_SYSTEM, "a later call");
}

using Attempt = std::function<banyan_result_t(banyan_comm_t, int64_t* sum, banyan_request_t)>;

// Rank 0 makes a call of which one allocation fails, each in turn, on a communicator of its own.
void fail_each_allocation(Rank& self, const Attempt& attempt) {
  for (int allowed = 0; allowed < 1000; ++allowed) {
    self.where(fmt::format("a call of which allocation {} fails", allowed));
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout_s = 10 * time_factor();
    banyan_comm_t comm = self.join(&config);
    if (comm == nullptr) return;
    int64_t sums[2] = {1, 1};
    const banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = &sums[1];
      c.count = 1;
      c.datatype = BANYAN_INT64;
    });
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    self.meet();
    if (self.rank() == 0) allocations_left = allowed;
    const banyan_result_t result = attempt(comm, sums, request);
    struct {
      banyan_result_t result;
      bool enough;
    } first{result, allocations_left >= 0};
    allocations_left = -1;
    self.share(&first, sizeof first);
    if (first.result == BANYAN_SUCCESS) {
      self.expect_ok(result, "a call that ends well on rank 0");
      self.expect(sums[0] == 2 || sums[1] == 2, "the sum");
      self.leave(comm);
      if (first.enough) return;
      continue;
    }
    self.expect_code(first.result, BANYAN_ERR_SYSTEM, "the call on rank 0");
    self.expect(result == BANYAN_ERR_SYSTEM || (self.rank() == 1 && result == BANYAN_SUCCESS),
                fmt::format("the call ended with {}", static_cast<int>(result)));
    expect_failed(self, comm, 0);
    self.expect_ok(banyan_request_destroy(request), "destroy of the request");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  }
  self.fail("no number of allocations is enough");
}

TEST_P(Memory, MissingInACallFailsItEverywhere) {
  run(2, [](Rank& self) {
    fail_each_allocation(self, [](banyan_comm_t comm, int64_t* sum, banyan_request_t) {
      return banyan_allreduce(sum, sum, 1, BANYAN_INT64, BANYAN_SUM, comm);
    });
  });
}

TEST_P(Memory, MissingInARequestFailsItEverywhere) {
  run(2, [](Rank& self) {
    fail_each_allocation(self, [](banyan_comm_t, int64_t*, banyan_request_t request) {
      const banyan_result_t started = banyan_request_start(request);
      const banyan_result_t result = banyan_request_wait(request);
      return started != BANYAN_SUCCESS ? started : result;
    });
  });
}

TEST_P(Memory, MissingInAGroupFailsItEverywhere) {
  run(2, [](Rank& self) {
    fail_each_allocation(self, [](banyan_comm_t comm, int64_t* sum, banyan_request_t request) {
      banyan_group_start();
      banyan_allreduce(sum, sum, 1, BANYAN_INT64, BANYAN_SUM, comm);
      banyan_request_start(request);
      const banyan_result_t ended = banyan_group_end();
      return ended != BANYAN_SUCCESS ? ended : banyan_request_wait(request);
    });
  });
}

// Rank 1 splits, and one allocation of it fails, each of some in turn: nobody waits for it. Where
// it can not even say so, the parent fails; and in the very end the other has what it needs before
// it hears that rank 1 has not.
TEST_P(Memory, MissingInASplitFailsItEverywhere) {
  if (GetParam() == Kind::kThreads)
    GTEST_SKIP() << "where ranks meet is served for a while by a thread of this process";
  run(2,
      [](Rank& self) {
        for (int allowed = 0; allowed < 2000; allowed += allowed < 300 ? 3 : 25) {
          self.where(fmt::format("a split of which allocation {} fails", allowed));
          banyan_config_t config = BANYAN_CONFIG_INIT;
          config.timeout_s = config.init_timeout_s = 20 * time_factor();
          banyan_comm_t comm = self.join(&config);
          if (comm == nullptr) return;
          self.verify(comm, 10, 1);
          self.meet();
          banyan_comm_t child = nullptr;
          const TimePoint begin = Clock::now();
          if (self.rank() == 1) allocations_left = allowed;
          const banyan_result_t result = banyan_comm_split(comm, 0, 0, &child, &config);
          const bool enough = allocations_left >= 0;
          allocations_left = -1;
          struct Said {
            banyan_result_t result;
            bool enough;
          } said[2];
          const Said mine{result, enough};
          self.gather(&mine, said, sizeof mine);
          self.expect(seconds_since(begin) < 5 * time_factor(), "nobody waits");
          if (said[1].result == BANYAN_SUCCESS) {
            self.expect_ok(result, "the split");
            if (child != nullptr) self.leave(child);
          } else if (self.rank() == 1 || result != BANYAN_SUCCESS) {
            self.expect(result == BANYAN_ERR_SYSTEM || self.rank() == 0,
                        "rank 1 says what it lacks");
            self.expect(result == BANYAN_ERR_SYSTEM || result == BANYAN_ERR_PEER_LOST,
                        fmt::format("the split gave {}", static_cast<int>(result)));
            self.expect(child == nullptr, "no child");
          } else {
            self.expect_code(banyan_barrier(child), BANYAN_ERR_PEER_LOST, "a child of one");
            self.expect_ok(banyan_comm_destroy(child), "destroy of the child");
          }
          banyan_result_t error = BANYAN_SUCCESS;
          self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
          if (error == BANYAN_SUCCESS) {
            self.leave(comm);
          } else {
            self.expect_ok(banyan_comm_destroy(comm), "destroy");
          }
          if (said[1].enough) return;
        }
        self.fail("no number of allocations is enough");
      },
      {.limit_s = 100});
}

// This process may have so much more address space.
void limit_memory(size_t more) {
  long pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%ld", &pages) != 1) std::abort();
  std::fclose(file);
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(getpagesize()) + more;
  setrlimit(RLIMIT_AS, &limit);
}

TEST_P(Memory, MissingForTheWorkOfACallMovesNothing) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads share their limits";
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers need address space";
  constexpr size_t kCount = size_t{16} << 20;
  for (const bool in_group : {true, false})
    run(3, [&](Rank& self) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      std::vector<uint16_t> values(kCount);
      const banyan_call_t call = call_of([&](banyan_call_t& c) {
        c.send = c.recv = values.data();
        c.count = kCount;
        c.datatype = BANYAN_BFLOAT16;
        c.algorithm = "ring";
      });
      banyan_request_t request = nullptr;
      self.expect_ok(banyan_request_create(comm, &call, &request), "create");
      self.verify(comm, 100, 1);
      self.meet();  // a rank that is still in that call would hear of rank 1 there
      if (self.rank() == 1) limit_memory(size_t{1} << 20);
      int8_t out = 7, in = 0;
      banyan_result_t started = BANYAN_SUCCESS;
      if (in_group) {
        self.expect_ok(banyan_group_start(), "group_start");
        self.expect_ok(banyan_send(&out, 1, BANYAN_INT8, self.rank(), comm), "send");
        self.expect_ok(banyan_recv(&in, 1, BANYAN_INT8, self.rank(), comm), "receive");
        self.expect_ok(banyan_request_start(request), "start in a group");
        self.meet();  // from here on the others may hear of rank 1
        started = banyan_group_end();
      } else {
        started = banyan_request_start(request);
      }
      if (self.rank() == 1) {
        self.expect_code(started, BANYAN_ERR_SYSTEM, "a start without memory");
        self.expect(in == 0, "a message to itself has moved");
        const std::string text = banyan_last_error(comm);
        self.expect(text.find("bytes of working memory") != std::string::npos, text);
      }
      self.expect_code(banyan_request_wait(request), BANYAN_ERR_SYSTEM, "wait");
      expect_failed(self, comm, 1);
      self.expect_ok(banyan_request_destroy(request), "destroy of the request");
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

TEST_P(Memory, MissingForTheWorkOfAnOwnerEndsAllCalls) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads share their limits";
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers need address space";
  constexpr size_t kCount = size_t{16} << 20;
  run(3, [&](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    std::vector<uint16_t> values(kCount);
    const OpenCommunicator& communicator = **find_communicator(comm);
    const Call call = *check_call(communicator, call_of([&](banyan_call_t& c) {
                                    c.send = c.recv = values.data();
                                    c.count = kCount;
                                    c.datatype = BANYAN_BFLOAT16;
                                    c.algorithm = "ring";
                                  }));
    const Call barrier =
        *check_call(communicator, call_of([](banyan_call_t& c) { c.collective = BANYAN_BARRIER; }));
    std::unique_ptr<Owner> owner = std::move(*Owner::start(Driver(*communicator.membership)));
    const Submission before = *owner->submit(barrier);
    self.expect(before.wait(deadline_after(20)) && before.status().ok(), "a call before");
    self.meet();
    if (self.rank() == 1) limit_memory(size_t{1} << 20);
    const Submission without = *owner->submit(call), later = *owner->submit(barrier);
    for (const Submission& each : {without, later}) {
      self.expect(each.wait(deadline_after(20)), "it has an end");
      self.expect(each.status().code() == Code::kSystem, each.status().message());
    }
    self.expect(without.status().message().find("bytes of working memory") != std::string::npos,
                without.status().message());
    owner.reset();
    expect_failed(self, comm, 1);
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// A stack that is larger than those which the C library keeps of threads that have ended.
void want_large_stacks(size_t bytes) {
  pthread_attr_t attributes{};
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// Room for what a communicator maps, but not for the stack of a thread.
TEST_P(Memory, MissingForTheThreadOfOneRankFailsTheInitOfAll) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads share their limits";
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "sanitizers need address space";
  for (const int poor : {0, 1})
    run(3, [&](Rank& self) {
      banyan_unique_id_t id{};
      if (self.rank() == 2) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
      struct {
        banyan_unique_id_t ids[3];
      } all{};
      self.gather(&id, &all, sizeof id);
      if (self.rank() == poor) want_large_stacks(size_t{128} << 20);
      if (self.rank() == poor) limit_memory(size_t{64} << 20);
      banyan_comm_t comm = nullptr;
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.init_timeout_s = 20 * time_factor();
      const TimePoint begin = Clock::now();
      self.expect_code(banyan_comm_init(&comm, 3, &all.ids[2], self.rank(), &config),
                       BANYAN_ERR_SYSTEM, "init without a thread");
      self.expect(seconds_since(begin) < 10 * time_factor(), "all hear of it at once");
      const std::string text = banyan_last_error(nullptr);
      self.expect(
          text.find("cannot start the thread that watches the other ranks") != std::string::npos,
          text);
      self.expect(comm == nullptr, "no communicator");
      if (self.rank() == poor) {
        self.expect_code(banyan_get_unique_id(&id), BANYAN_ERR_SYSTEM, "get_unique_id");
        const std::string why = banyan_last_error(nullptr);
        self.expect(
            why.find("cannot start the thread that serves a rendezvous") != std::string::npos, why);
      }
    });
}

INSTANTIATE_TEST_SUITE_P(All, Memory, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::memory_test
