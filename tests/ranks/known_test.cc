// Calls that were made before take the shorter way: everything holds as it did the first time.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/ranks/ranks_cases.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/addresses.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::known_test {
namespace {

constexpr size_t kCount = 6;
constexpr uint64_t kManyCalls = 200;

class Known : public WithRanks {};

// Buffers of one allreduce, and the call.
struct Sum {
  std::vector<float> send = std::vector<float>(2 * kCount, 1.0F);
  std::vector<float> recv = std::vector<float>(2 * kCount, -1.0F);

  banyan_result_t call(banyan_comm_t comm, size_t count = kCount) {
    return banyan_allreduce(send.data(), recv.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm);
  }
  bool holds(float value) const {
    return std::all_of(recv.begin(), recv.begin() + kCount,
                       [&](float each) { return each == value; });
  }
};

bool make_known(Rank& self, banyan_comm_t comm, Sum& sum, size_t count = kCount) {
  for (int again = 0; again < 3; ++again)
    if (!self.expect_ok(sum.call(comm, count), "a call that becomes known")) return false;
  return self.expect(count != kCount || sum.holds(static_cast<float>(self.size())), "its sum");
}

TEST_P(Known, HaveNewResultsEachTime) {
  const bool brief = kThreadSanitizer || GetParam() == Kind::kThreads;
  const std::vector<int> sizes = brief ? std::vector{1, 3} : std::vector{1, 2, 3, 5};
  for (const int size : sizes) {
    std::vector<Table> tables;
    for (const uint64_t salt : {11, 12, 13}) {
      tables.emplace_back(DataType::kFloat32, ReduceOp::kSum, size, salt);
      tables.emplace_back(DataType::kBfloat16, ReduceOp::kAvg, size, salt);
      tables.emplace_back(DataType::kInt8, ReduceOp::kMax, size, salt);
    }
    run_joined(size, [&](Rank& self, banyan_comm_t comm) {
      Bench bench(self, comm);
      size_t skew = 0;
      for (const size_t count : {0U, 1U, 6U, 40U, 1000U, 5000U})
        for (const Table& table : tables)
          for (const Collective collective : kCollectives)
            for (const bool in_place : {false, true})
              if (!bench.run({.collective = collective,
                              .count = count,
                              .root = size - 1,
                              .in_place = in_place,
                              .skew = skew++ % 8},
                             table))
                return;
      self.agree(bench.digest(), "results that every rank holds");
    });
  }
}

// The engine takes over where a rank waits for long, so that not every one of these calls need be
// run past it; of a rank alone every one is.
TEST_P(Known, AreRunPastTheEngine) {
  for (const int size : {1, 2, 3})
    run_joined(size, [](Rank& self, banyan_comm_t comm) {
      Sum sum;
      if (!make_known(self, comm, sum)) return;
      const uint64_t before = engine_starts(comm);
      for (uint64_t call = 0; call < kManyCalls; ++call)
        self.expect_ok(sum.call(comm), "a known call");
      const uint64_t started = engine_starts(comm) - before;
      self.expect(self.size() == 1 ? started == 0 : started < kManyCalls,
                  fmt::format("the engine began {} of {} known calls", started, kManyCalls));
    });
}

// Wrong buffers are refused before anything is sent, and the next call is in step with the others.
TEST_P(Known, AreStillChecked) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Sum sum;
    if (!make_known(self, comm, sum)) return;
    const auto refuse = [&](const void* send, void* recv, const char* what) {
      self.expect_code(banyan_allreduce(send, recv, kCount, BANYAN_FLOAT32, BANYAN_SUM, comm),
                       BANYAN_ERR_INVALID_ARGUMENT, what);
    };
    refuse(nullptr, sum.recv.data(), "no send buffer");
    refuse(sum.send.data(), nullptr, "no recv buffer");
    refuse(nullptr, nullptr, "no buffers");
    refuse(sum.send.data(), sum.send.data() + 1, "recv begins in send");
    refuse(sum.recv.data() + kCount - 1, sum.recv.data(), "send begins in recv");
    float* last = address(UINTPTR_MAX - 7);
    refuse(last, sum.recv.data(), "send wraps round");
    refuse(sum.send.data(), last, "recv wraps round");
    self.expect(sum.holds(3), "nothing was written");
    self.expect_code(banyan_allreduce(sum.send.data(), sum.recv.data(), kCount, BANYAN_FLOAT32,
                                      BANYAN_SUM, nullptr),
                     BANYAN_ERR_INVALID_ARGUMENT, "no communicator");
    make_known(self, comm, sum);
    self.expect_ok(banyan_allreduce(sum.recv.data(), sum.recv.data(), kCount, BANYAN_FLOAT32,
                                    BANYAN_SUM, comm),
                   "in place");
    self.expect(sum.holds(9), "its sum");
    make_known(self, comm, sum);
  });
}

TEST_P(Known, StillAgree) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Sum sum;
    if (!make_known(self, comm, sum) || !make_known(self, comm, sum, kCount + 1)) return;
    std::fill(sum.recv.begin(), sum.recv.end(), -1.0F);
    self.expect_code(sum.call(comm, self.rank() == 1 ? kCount + 1 : kCount), BANYAN_ERR_MISMATCH,
                     "counts that differ");
    self.expect(sum.holds(-1), "nothing was written");
    self.expect_code(sum.call(comm), BANYAN_ERR_MISMATCH, "the call after it");
    banyan_comm_destroy(comm);
  });
}

TEST_P(Known, EndAtTheDeadline) {
  run(3, [](Rank& self) {
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout_s = 0.4 * time_factor();
    banyan_comm_t comm = self.join(&config);
    if (comm == nullptr) return;
    Sum sum;
    if (!make_known(self, comm, sum)) return;
    self.meet();
    if (self.rank() != 1) {
      const TimePoint begin = Clock::now();
      self.expect_code(sum.call(comm), BANYAN_ERR_TIMEOUT, "a rank that does not come");
      const std::chrono::duration<double> took = Clock::now() - begin;
      self.expect(took.count() < 1.4 * time_factor(), fmt::format("after {} s", took.count()));
      int failed_rank = -2;
      banyan_comm_failed_rank(comm, &failed_rank);
      self.expect(failed_rank == 1, fmt::format("rank {} is to blame", failed_rank));
    }
    self.meet();
    self.expect_code(sum.call(comm), BANYAN_ERR_TIMEOUT, "afterwards");
    banyan_comm_destroy(comm);
  });
}

TEST_P(Known, WorkInGroupsAndBesideRequests) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Sum sum, other;
    if (!make_known(self, comm, sum)) return;
    banyan_call_t call = BANYAN_CALL_INIT;
    call.send = other.send.data();
    call.recv = other.recv.data();
    call.count = kCount;
    call.datatype = BANYAN_FLOAT32;
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    for (int again = 0; again < 20; ++again) {
      self.expect_ok(banyan_request_start(request), "start");
      self.expect_ok(sum.call(comm), "beside a request");
      self.expect_ok(banyan_request_wait(request), "wait");
    }
    self.expect(other.holds(3) && sum.holds(3), "both sums");
    self.expect_ok(banyan_request_destroy(request), "destroy");

    std::fill(sum.recv.begin(), sum.recv.end(), -1.0F);
    banyan_group_start();
    self.expect_ok(sum.call(comm), "in a group");
    self.expect(sum.holds(-1), "a group has not begun");
    self.expect_ok(banyan_group_end(), "the end of the group");
    self.expect(sum.holds(3), "its sum");
    make_known(self, comm, sum);
  });
}

// Rank 0 gives `sent` to rank 1, which wants `wanted` numbers.
banyan_result_t pass(Rank& self, banyan_comm_t comm, std::vector<int32_t>& numbers, size_t sent,
                     size_t wanted) {
  return self.rank() == 0 ? banyan_send(numbers.data(), sent, BANYAN_INT32, 1, comm)
                          : banyan_recv(numbers.data(), wanted, BANYAN_INT32, 0, comm);
}

TEST_P(Known, MessagesArriveEachTime) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    for (const size_t count : {0U, 1U, 6U, 7U, 24U, 1000U, 4095U, 4096U, 8192U, 20000U}) {
      std::vector<int32_t> numbers(count);
      for (int32_t again = 0; again < 5; ++again) {
        const int32_t told = self.rank() == 0 ? again : -1;
        std::fill(numbers.begin(), numbers.end(), told);
        self.expect_ok(pass(self, comm, numbers, count, count), "a message");
        const auto arrived = std::count(numbers.begin(), numbers.end(), again);
        if (!self.expect(static_cast<size_t>(arrived) == count,
                         fmt::format("{} of {} numbers are {}", arrived, count, again)))
          return;
      }
    }
  });
}

TEST_P(Known, MessagesAreRunPastTheEngine) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    std::vector<int32_t> numbers(kCount);
    for (int again = 0; again < 3; ++again)
      self.expect_ok(pass(self, comm, numbers, kCount, kCount), "a message that becomes known");
    const uint64_t before = engine_starts(comm);
    for (uint64_t message = 0; message < kManyCalls; ++message)
      self.expect_ok(pass(self, comm, numbers, kCount, kCount), "a known message");
    const uint64_t started = engine_starts(comm) - before;
    self.expect(started < kManyCalls,
                fmt::format("the engine began {} of {} known messages", started, kManyCalls));
  });
}

TEST_P(Known, MessagesAreTheCallersAgainWhenTheyHaveBeenTaken) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    std::vector<int32_t> numbers(kCount, self.rank());
    for (int again = 0; again < 4; ++again) {
      self.meet();
      const TimePoint begin = Clock::now();
      // Longer than the sender looks and yields: it hands over to the engine, and sleeps.
      if (self.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(40));
      self.expect_ok(pass(self, comm, numbers, kCount, kCount), "a message");
      const std::chrono::duration<double> took = Clock::now() - begin;
      self.expect(took.count() > 0.02,
                  fmt::format("rank {} is done after {} s", self.rank(), took.count()));
    }
  });
}

TEST_P(Known, MessagesStillAgree) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    std::vector<int32_t> numbers(kCount + 1, self.rank() == 0 ? 7 : -1);
    for (int again = 0; again < 3 && self.rank() < 2; ++again) {
      self.expect_ok(pass(self, comm, numbers, kCount, kCount), "a message");
      self.expect_ok(pass(self, comm, numbers, kCount + 1, kCount + 1), "a longer one");
    }
    std::fill(numbers.begin(), numbers.end(), -1);
    if (self.rank() < 2)
      self.expect_code(pass(self, comm, numbers, kCount, kCount + 1), BANYAN_ERR_MISMATCH,
                       "counts that differ");
    self.expect(std::count(numbers.begin(), numbers.end(), -1) == kCount + 1,
                "nothing was written");
    self.meet();
    banyan_comm_abort(comm);
    banyan_comm_destroy(comm);
  });
}

TEST_P(Known, MessagesEndAtTheDeadline) {
  for (const int late : {0, 1})
    run(2, [late](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.timeout_s = 0.4 * time_factor();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      std::vector<int32_t> numbers(kCount);
      for (int again = 0; again < 3; ++again)
        self.expect_ok(pass(self, comm, numbers, kCount, kCount), "a message");
      self.meet();
      if (self.rank() != late)
        self.expect_code(pass(self, comm, numbers, kCount, kCount), BANYAN_ERR_TIMEOUT,
                         "a message without its other end");
      self.meet();
      banyan_comm_destroy(comm);
    });
}

TEST_P(Known, EndWithTheirCommunicator) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Sum sum;
    if (!make_known(self, comm, sum)) return;
    self.expect_ok(banyan_comm_finalize(comm), "finalize");
    self.expect_code(sum.call(comm), BANYAN_ERR_INVALID_USAGE, "after finalize");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
    self.expect_code(sum.call(comm), BANYAN_ERR_INVALID_ARGUMENT, "after destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Known, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::known_test
