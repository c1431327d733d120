// A thread that has the communicator for itself makes the calls that others submit.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/owner.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "src/c_api/arguments.h"
#include "src/c_api/handles.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/ranks_cases.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::owner_test {
namespace {

Call checked(banyan_comm_t comm, const banyan_call_t& call) {
  return *check_call(**find_communicator(comm), call);
}

// An allreduce of int64 whose result is known.
struct Sum {
  Sum(const Rank& self, size_t count, int64_t its_salt) : salt(its_salt), send(count), recv(count) {
    for (size_t i = 0; i < count; ++i) send[i] = salt + static_cast<int64_t>(i) * (self.rank() + 1);
  }
  Call call() {
    Call made;
    made.problem.type = DataType::kInt64;
    made.problem.count = send.size();
    made.send = send.data();
    made.recv = recv.data();
    made.send_bytes = made.recv_bytes = send.size() * sizeof(int64_t);
    return made;
  }
  bool right(const Rank& self) const {
    const int64_t size = self.size();
    for (size_t i = 0; i < recv.size(); ++i)
      if (recv[i] != size * salt + static_cast<int64_t>(i) * size * (size + 1) / 2) return false;
    return true;
  }

  int64_t salt;
  std::vector<int64_t> send, recv;
  std::optional<Submission> submission;
};

std::vector<Sum> sums(const Rank& self, size_t number, size_t count) {
  std::vector<Sum> made;
  for (size_t i = 0; i < number; ++i) made.emplace_back(self, count, static_cast<int64_t>(i));
  return made;
}

bool submit(Owner& owner, Sum& sum, TimePoint deadline = {}) {
  Result<Submission> submission = owner.submit(sum.call(), deadline);
  if (submission.ok()) sum.submission = *submission;
  return submission.ok();
}

TimePoint patience() {
  return deadline_after(20 * time_factor());
}

class Owners : public WithRanks {};

TEST_P(Owners, MakeEveryCall) {
  for (const int size : {1, 2, 3, 4, 5}) {
    const Table table(DataType::kFloat32, ReduceOp::kSum, size, 1);
    run_joined(size, [&](Rank& self, banyan_comm_t comm) {
      const std::unique_ptr<Owner> owner = own(comm);
      Bench bench(self, comm, [&](const banyan_call_t& call, banyan_comm_t) {
        const Result<Submission> made = owner->submit(checked(comm, call));
        if (!made.ok()) return static_cast<banyan_result_t>(made.status().code());
        self.expect(made->wait(patience()), "a call that is waited for is done");
        return static_cast<banyan_result_t>(made->status().code());
      });
      for (const Collective collective : kCollectives)
        for (const size_t count : {0, 1, 1009, 100003})
          for (const bool in_place : {false, true})
            if (!bench.run({.collective = collective,
                            .count = count,
                            .root = size - 1,
                            .in_place = in_place},
                           table))
              return;
      self.agree(bench.digest(), "results that every rank holds");
    });
  }
}

// A lock makes the order the same on all ranks: calls are known by their numbers.
TEST_P(Owners, TakeCallsFromManyAtOnce) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCalls = 600, kThreads = 10;
    std::vector<Sum> all = sums(self, kCalls, 0);
    for (size_t i = 0; i < kCalls; ++i)
      all[i] = Sum(self, i % 100 == 99 ? 60000 : i % 7, static_cast<int64_t>(i));
    const std::unique_ptr<Owner> owner = own(comm, kCalls / 2);
    std::mutex order;
    size_t next = 0;
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (;;) {
          Sum* sum = nullptr;
          {
            const std::lock_guard lock(order);
            if (next == kCalls) return;
            sum = &all[next++];
            if (!submit(*owner, *sum, patience())) return;
          }
          if (sum->salt % 3 == 0) sum->submission->wait(patience());
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const Sum& sum : all) {
      if (!self.expect(sum.submission && sum.submission->wait(patience()), "a call is done"))
        return;
      self.expect(sum.submission->status().ok(), "it ended well");
      self.expect(sum.right(self), fmt::format("sum {}", sum.salt));
    }
  });
}

TEST_P(Owners, AnswerThatTheyAreBusy) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kMost = 4;
    std::vector<Sum> all = sums(self, kMost + 1, 10);
    const std::unique_ptr<Owner> owner = own(comm, kMost);
    if (self.rank() == 0) {
      for (size_t i = 0; i < kMost; ++i) self.expect(submit(*owner, all[i]), "there is room");
      for (const TimePoint deadline : {TimePoint(), deadline_after(0.02)}) {
        const Result<Submission> refused = owner->submit(all[kMost].call(), deadline);
        self.expect(refused.status().code() == Code::kBusy, "there is no room");
      }
    }
    self.meet();  // rank 1 has submitted nothing until now
    if (self.rank() == 1)
      for (size_t i = 0; i < kMost; ++i) self.expect(submit(*owner, all[i], patience()), "room");
    self.expect(submit(*owner, all[kMost], patience()), "there is room again");
    for (const Sum& sum : all) {
      if (!sum.submission) return;
      self.expect(sum.submission->wait(patience()) && sum.submission->status().ok(),
                  "it ends well");
      self.expect(sum.right(self), fmt::format("sum {}", sum.salt));
    }
  });
}

// To one another at once, which works because several calls are under way.
TEST_P(Owners, PassMessages) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    const std::unique_ptr<Owner> owner = own(comm);
    std::vector<int64_t> send(50000, self.rank()), recv(send.size(), -1);
    Call call;
    call.problem.type = DataType::kInt64;
    call.problem.count = send.size();
    call.problem.root = 1 - self.rank();
    call.send = send.data();
    call.recv = recv.data();
    std::vector<Submission> made;
    for (const Collective collective : {Collective::kSend, Collective::kRecv}) {
      call.problem.collective = collective;
      made.push_back(*owner->submit(call));
    }
    for (const Submission& each : made)
      self.expect(each.wait(patience()) && each.status().ok(), "a message");
    self.expect(std::count(recv.begin(), recv.end(), 1 - self.rank()) ==
                    static_cast<ptrdiff_t>(recv.size()),
                "what has come");
    call.problem.root = self.rank();
    self.expect(owner->submit(call).status().code() == Code::kInvalidUsage, "to oneself");
  });
}

// What was submitted is done then, and the communicator is its caller's again.
TEST_P(Owners, FinishBeforeTheyGo) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    for (int round = 0; round < 3; ++round) {
      std::vector<Sum> all = sums(self, 40, 5000);
      {
        const std::unique_ptr<Owner> owner = own(comm);
        for (Sum& sum : all) self.expect(submit(*owner, sum), "there is room");
      }
      for (const Sum& sum : all) {
        self.expect(sum.submission->done() && sum.submission->status().ok(), "it has ended well");
        self.expect(sum.right(self), fmt::format("sum {}", sum.salt));
      }
      self.verify(comm, 1000, 3);
    }
  });
}

TEST_P(Owners, RestWhereNothingIsToDo) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    const std::unique_ptr<Owner> owner = own(comm);
    Sum sum(self, 1000, 1);
    self.expect(submit(*owner, sum) && sum.submission->wait(patience()), "a call");
    self.meet();
    // The owner looks for a millisecond before it rests.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    self.expect(used < 0.25, fmt::format("{} s of a core in half a second of rest", used));
    self.meet();
    Sum later(self, 1000, 2);
    self.expect(submit(*owner, later) && later.submission->wait(patience()), "a later call");
    self.expect(later.right(self), "its sum");
  });
}

TEST_P(Owners, KeepDeadlinesThatNobodyWaitsFor) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    std::unique_ptr<Owner> owner = own(comm);
    if (self.rank() == 0) {
      std::vector<Sum> all = sums(self, 3, 10);
      for (Sum& sum : all) {
        Call call = sum.call();
        call.timeout_s = 0.2;
        sum.submission = *owner->submit(call);
      }
      self.wait_until([&] { return all.back().submission->done(); });
      for (const Sum& sum : all) {
        if (!self.expect(sum.submission->wait(patience()), "it has an end")) return;
        const Status status = sum.submission->status();
        self.expect(status.code() == Code::kTimeout, "its code");
        self.expect(status.message().find("waits for rank 1") != std::string_view::npos,
                    status.message());
      }
    }
    self.meet();
    owner.reset();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// Many calls are submitted and one rank takes part in the first few only. Each of the others has
// its calls end with one and the same verdict, also those that are submitted later.
void lose_a_rank(Rank& self, int victim, const std::function<void(banyan_comm_t)>& end) {
  constexpr size_t kCalls = 60, kFew = 20;
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  std::vector<Sum> all = sums(self, kCalls, 20000);
  std::unique_ptr<Owner> owner = own(comm);
  const bool lost = self.rank() == victim;
  for (size_t i = 0; i < (lost ? kFew : kCalls); ++i) self.expect(submit(*owner, all[i]), "room");
  for (size_t i = 0; i < kFew; ++i)
    self.expect(all[i].submission->wait(patience()), "the first few are done");
  self.meet();
  if (lost) self.expect(submit(*owner, all[kFew]), "room");  // one is under way there
  self.mark(1);
  if (lost) end(comm);
  const Code expected = lost ? Code::kAborted : Code::kPeerLost;
  std::optional<Submission> first;  // of those that failed
  for (size_t i = 0; i < kCalls; ++i) {
    if (!all[i].submission) continue;
    const TimePoint soon = lost ? deadline_after(stall_s()) : patience();
    if (!self.expect(all[i].submission->wait(soon), "it has an end")) return;
    const Status status = all[i].submission->status();
    // The lost rank may have done its part in the first one that it did not wait for.
    if (i < kFew || (i == kFew && status.ok())) {
      self.expect(status.ok() && all[i].right(self), "what all have made ended well");
      continue;
    }
    if (!first) first = all[i].submission;
    self.expect(status.code() == expected, fmt::format("call {}: {}", i, status.message()));
    self.expect(status.message() == first->status().message(), "one verdict for all");
  }
  const Result<Submission> later = owner->submit(all[0].call(), patience());
  self.expect(later.ok() && later->wait(patience()) && later->status().code() == expected &&
                  (!first || later->status().message() == first->status().message()),
              "a later call has the same verdict");
  owner.reset();
  self.report(comm, banyan_barrier(comm));
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
}

void expect_lost(const Job& job, int size, int victim) {
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
    EXPECT_EQ(job.outcome(rank).failed_rank, victim) << job.outcome(rank).text;
  }
}

TEST_P(Owners, EndAllCallsWhereARankIsKilled) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  for (const int victim : {0, 2}) {
    Job job(GetParam(), 3, [&](Rank& self) {
      lose_a_rank(self, victim, [&](banyan_comm_t) { self.wait_until([] { return false; }); });
    });
    ASSERT_TRUE(job.wait_for_marks(1, 20));
    job.signal(victim, SIGKILL);
    job.finish();
    expect_lost(job, 3, victim);
  }
}

// From a thread that the owner does not know.
TEST_P(Owners, EndAllCallsWhereARankAborts) {
  constexpr int kVictim = 1;
  Job job(GetParam(), 3, [](Rank& self) {
    lose_a_rank(self, kVictim, [&](banyan_comm_t comm) {
      std::thread([&] { self.expect_ok(banyan_comm_abort(comm), "abort"); }).join();
    });
  });
  job.finish();
  expect_lost(job, 3, kVictim);
}

INSTANTIATE_TEST_SUITE_P(All, Owners, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::owner_test
