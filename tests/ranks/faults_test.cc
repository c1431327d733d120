// A rank is killed, stopped, silent, absent, or gives up: everybody else is told in time, all the
// same, and nothing is left.
// SPDX-License-Identifier: Apache-2.0

#include <dirent.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test::faults_test {
namespace {

class Faults : public WithRanks {};

// Files that the library may have made, by their names.
std::set<std::string> litter() {
  std::set<std::string> found;
  for (const std::string folder : {"/dev/shm", "/tmp"}) {
    DIR* open = opendir(folder.c_str());
    if (open == nullptr) continue;
    while (const dirent* entry = readdir(open))  // NOLINT(concurrency-mt-unsafe): our own stream
      if (entry->d_type != DT_DIR && std::string_view(entry->d_name).starts_with("banyan"))
        found.insert(folder + "/" + entry->d_name);
    closedir(open);
  }
  return found;
}

// What every call on a failed communicator does: the same result, at once.
void check_failed(Rank& self, banyan_comm_t comm, banyan_result_t first) {
  const TimePoint begin = Clock::now();
  float in[4] = {}, out[64] = {};
  self.expect_code(banyan_allreduce(in, out, 1, BANYAN_FLOAT32, BANYAN_SUM, comm), first,
                   "a later allreduce");
  self.expect_code(banyan_barrier(comm), first, "a later barrier");
  self.expect_code(banyan_comm_finalize(comm), first, "a later finalize");
  banyan_result_t error = BANYAN_SUCCESS;
  self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
  self.expect_code(error, first, "what async_error says");
  self.expect(!std::string_view(banyan_last_error(comm)).empty(), "a failure without a sentence");
  self.expect(seconds_since(begin) < stall_s(), "calls on a failed communicator wait");
}

// Allreduces until one fails. Marks 1 when it begins.
void make_calls(Rank& self, size_t count, double timeout_s, bool patient) {
  banyan_comm_t warm_up = self.join();  // what a process keeps for ever is made here
  if (warm_up == nullptr) return;
  self.leave(warm_up);
  self.meet();
  const Holdings before = holdings();
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout_s = timeout_s;
  banyan_comm_t comm = self.join(&config);
  if (comm == nullptr) return;
  std::vector<float> send(count, static_cast<float>(self.rank() + 1)), recv(count);
  const auto wanted = static_cast<float>(self.size() * (self.size() + 1)) / 2;
  self.verify(comm, 100, 1);
  self.mark(1);
  banyan_result_t result = BANYAN_SUCCESS;
  for (int n = 0; result == BANYAN_SUCCESS; ++n) {
    if (n % 64 == 0) self.where(fmt::format("allreduce {} in a row", n));
    result = banyan_allreduce(send.data(), recv.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm);
    if (result == BANYAN_SUCCESS &&
        std::any_of(recv.begin(), recv.end(), [&](float value) { return value != wanted; }))
      return self.fail("an allreduce succeeded with a wrong sum");
  }
  self.report(comm, result);
  self.where("after the failure");
  if (patient) check_failed(self, comm, result);
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
  const std::string left = expect_released(before);
  self.expect(left.empty(), "left after a failure: " + left);
}

void expect_told(const Job& job, int size, int victim, TimePoint since, double limit) {
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const Outcome& outcome = job.outcome(rank);
    ASSERT_TRUE(outcome.seen) << "rank " << rank << " of " << size << " returned nothing";
    EXPECT_EQ(outcome.code, BANYAN_ERR_PEER_LOST) << "rank " << rank << ": " << outcome.text;
    EXPECT_EQ(outcome.failed_rank, victim) << "rank " << rank << ": " << outcome.text;
    EXPECT_NE(outcome.text.find(std::to_string(victim)), std::string::npos) << outcome.text;
    EXPECT_LT(std::chrono::duration<double>(outcome.at - since).count(), limit * time_factor())
        << "rank " << rank << " of " << size;
  }
}

// Once all ranks have set mark 1.
void kill_when_marked(Job& job, int size, int victim) {
  ASSERT_TRUE(job.wait_for_marks(1, 20));
  const TimePoint at = Clock::now();
  job.signal(victim, SIGKILL);
  job.finish();
  expect_told(job, size, victim, at, 1);
}

TEST_P(Faults, KilledInARowOfCalls) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  const std::set<std::string> before = litter();
  uint64_t state = 20240517;
  for (const int size : {4, 8})
    for (const size_t count : {size_t{1}, size_t{16384}, size_t{1} << 20})
      for (int trial = 0; trial < (count < 100 ? 3 : 2); ++trial) {
        state = mix(state);
        const int victim = trial == 0 ? 0 : static_cast<int>(state % static_cast<unsigned>(size));
        Job job(GetParam(), size, [&](Rank& self) { make_calls(self, count, 30, true); });
        ASSERT_TRUE(job.wait_for_marks(1, 20));
        job.wait(static_cast<double>(state >> 32 & 0xFFFF) * 1e-6);
        const TimePoint at = Clock::now();
        job.signal(victim, SIGKILL);
        job.finish();
        expect_told(job, size, victim, at, 1);
        if (HasFailure()) return;
      }
  EXPECT_EQ(litter(), before);
}

// Nobody is in a call: async_error says it all the same.
TEST_P(Faults, KilledWhileAllAreIdle) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  Job job(GetParam(), 3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.verify(comm, 10, 1);
    self.mark(1);
    self.where("idle");
    self.report(comm, wait_for_error(self, comm));
    check_failed(self, comm, BANYAN_ERR_PEER_LOST);
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
  kill_when_marked(job, 3, 1);
}

// A child that stays, a loader of data for instance, holds the sockets of its dead parent.
TEST_P(Faults, KilledWithAChildThatStays) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  Job job(GetParam(), 3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.verify(comm, 10, 1);
    if (self.rank() == 1 && fork() == 0) {
      sleep(4);  // longer than anybody may need to notice
      _exit(0);
    }
    self.mark(1);
    self.report(comm, self.rank() == 1 ? wait_for_error(self, comm) : banyan_barrier(comm));
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
  kill_when_marked(job, 3, 1);
}

TEST_P(Faults, KilledBeforeTheEnd) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  Job job(GetParam(), 3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.mark(1);
    if (self.rank() == 2) self.wait_until([] { return false; });
    const banyan_result_t result = banyan_comm_finalize(comm);
    self.report(comm, result);
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
  kill_when_marked(job, 3, 2);
}

TEST_P(Faults, KilledWhileMeeting) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  for (const int victim : {1, 2}) {
    Job job(GetParam(), 4, [](Rank& self) {
      banyan_unique_id_t id{};
      if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
      self.share(&id, sizeof id);
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.init_timeout_s = 1.5 * time_factor();
      if (self.rank() == 3) {  // comes when the other one is gone
        self.mark(1);
        self.wait_until(
            [late = deadline_after(0.3 * time_factor())] { return Clock::now() > late; });
      }
      banyan_comm_t comm = nullptr;
      self.mark(1);
      const TimePoint begin = Clock::now();
      const banyan_result_t result =
          banyan_comm_init(&comm, self.size(), &id, self.rank(), &config);
      self.expect(result == BANYAN_ERR_PEER_LOST || result == BANYAN_ERR_TIMEOUT,
                  fmt::format("init without rank {} gave {}", 2, static_cast<int>(result)));
      self.expect(seconds_since(begin) < config.init_timeout_s + stall_s(),
                  "init outlives its deadline");
      self.expect(comm == nullptr, "no communicator after a failure");
      self.meet();
    });
    ASSERT_TRUE(job.wait_for_marks(1, 20));
    job.wait(0.1);
    job.signal(victim, SIGKILL);
    job.finish();
  }
}

TEST_P(Faults, StoppedForLongerThanTheTimeout) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be stopped";
  const double timeout = 0.5 * time_factor();
  for (const int victim : {0, 2}) {
    Job job(GetParam(), 4, [&](Rank& self) { make_calls(self, 16384, timeout, true); });
    ASSERT_TRUE(job.wait_for_marks(1, 20));
    job.wait(0.02);
    const TimePoint at = Clock::now();
    job.signal(victim, SIGSTOP);
    job.wait(timeout + 0.7 * time_factor());
    const TimePoint again = Clock::now();
    job.signal(victim, SIGCONT);
    job.finish();
    for (int rank = 0; rank < 4; ++rank) {
      const Outcome& outcome = job.outcome(rank);
      ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
      const double seconds =
          std::chrono::duration<double>(outcome.at - (rank == victim ? again : at)).count();
      EXPECT_LT(seconds, timeout + stall_s()) << "rank " << rank;
      EXPECT_TRUE(outcome.code == BANYAN_ERR_TIMEOUT || outcome.code == BANYAN_ERR_PEER_LOST)
          << "rank " << rank << ": " << outcome.code << ", " << outcome.text;
      EXPECT_EQ(outcome.code, job.outcome(1).code) << "survivors are told the same";
      EXPECT_EQ(outcome.failed_rank, job.outcome(1).failed_rank);
    }
    EXPECT_TRUE(job.outcome(1).failed_rank == victim || job.outcome(1).failed_rank == -1)
        << job.outcome(1).text;
  }
}

TEST_P(Faults, StoppedForAMomentDoesNoHarm) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads cannot be stopped";
  Job job(GetParam(), 4, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.mark(1);
    const TimePoint end = deadline_after(0.8);
    for (int32_t go = 1; go != 0;) {
      self.verify(comm, 2000, 1);
      go = Clock::now() < end ? 1 : 0;  // rank 0's clock decides
      if (!self.expect_ok(banyan_broadcast(&go, &go, 1, BANYAN_INT32, 0, comm), "broadcast")) break;
    }
    self.leave(comm);
  });
  ASSERT_TRUE(job.wait_for_marks(1, 20));
  for (const int victim : {1, 0, 3}) {
    job.signal(victim, SIGSTOP);
    job.wait(0.15);
    job.signal(victim, SIGCONT);
    job.wait(0.03);
  }
  job.finish();
}

// One rank does not come: TIMEOUT, the same and in time on all, naming it where that is possible.
TEST_P(Faults, SilentRankIsNamed) {
  for (const bool own : {false, true})  // the call's own timeout, or the communicator's
    run(4, [&](Rank& self) {
      const double timeout = 0.3 * time_factor();
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.timeout_s = own ? 20 * time_factor() : timeout;
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      self.verify(comm, 10, 1);
      banyan_result_t result = BANYAN_SUCCESS;
      if (self.rank() == 2) {
        result = wait_for_error(self, comm);
      } else {
        float values[100] = {};
        banyan_request_t request = nullptr;
        const banyan_call_t call = call_of([&](banyan_call_t& c) {
          c.send = c.recv = values;
          c.count = 100;
          c.timeout_s = own ? timeout : 0;
        });
        self.expect_ok(banyan_request_create(comm, &call, &request), "create");
        self.expect_ok(banyan_request_start(request), "start");
        const TimePoint begin = Clock::now();
        result = banyan_request_wait(request);
        self.expect(seconds_since(begin) < timeout + stall_s(), "TIMEOUT comes late");
        self.expect_ok(banyan_request_destroy(request), "destroy");
      }
      self.expect_code(result, BANYAN_ERR_TIMEOUT, "a call without rank 2");
      int failed = -2;
      self.expect_ok(banyan_comm_failed_rank(comm, &failed), "failed_rank");
      self.expect(failed == 2,
                  fmt::format("failed_rank is {}: {}", failed, banyan_last_error(comm)));
      check_failed(self, comm, BANYAN_ERR_TIMEOUT);
      self.meet();
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

// Ranks 1 to 3 are blocked in a call that rank 0 does not make; a thread of rank 1 gives up.
TEST_P(Faults, AbortFromAnotherThread) {
  std::vector<double> seconds;
  for (int trial = 0; trial < 6; ++trial) {
    Job job(GetParam(), 4, [&](Rank& self) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      std::vector<float> values(trial % 2 == 0 ? 1 : size_t{1} << 18);
      self.verify(comm, 10, 1);
      std::thread other;
      double took = 0;
      if (self.rank() == 1)
        other = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(3 + 5 * trial));  // any moment
          const TimePoint begin = Clock::now();
          self.expect_ok(banyan_comm_abort(comm), "abort");
          took = seconds_since(begin);
          self.expect_ok(banyan_comm_abort(comm), "abort again");
        });
      if (self.rank() == 0) wait_for_error(self, comm);
      self.where("the call that is aborted");
      const banyan_result_t result = banyan_allreduce(values.data(), values.data(), values.size(),
                                                      BANYAN_FLOAT32, BANYAN_SUM, comm);
      if (other.joinable()) other.join();
      if (self.rank() == 1) self.expect_code(result, BANYAN_ERR_ABORTED, "a call that is aborted");
      self.report(comm, result, took);
      check_failed(self, comm, self.rank() == 1 ? BANYAN_ERR_ABORTED : BANYAN_ERR_PEER_LOST);
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
    const TimePoint begin = Clock::now();
    job.finish();
    expect_told(job, 4, 1, begin, 5);
    seconds.push_back(job.outcome(1).seconds);
    if (HasFailure()) return;
  }
  std::sort(seconds.begin(), seconds.end());
  EXPECT_LT(seconds[seconds.size() / 2], 0.010 * time_factor());
}

TEST_P(Faults, AbortWithRequestsInFlight) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    std::vector<float> values(1000);
    const banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = values.data();
      c.count = values.size();
    });
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    if (self.rank() != 2) self.expect_ok(banyan_request_start(request), "start");
    self.meet();
    if (self.rank() == 0) {
      self.expect_ok(banyan_comm_abort(comm), "abort");
      self.expect_code(banyan_comm_destroy(comm), BANYAN_ERR_INVALID_USAGE,
                       "destroy with a request that nobody has waited for");
      self.expect_code(banyan_request_wait(request), BANYAN_ERR_ABORTED, "wait");
    }
    if (self.rank() == 1) {
      self.expect_code(wait_for_error(self, comm), BANYAN_ERR_PEER_LOST, "what async_error says");
      self.expect_code(banyan_comm_destroy(comm), BANYAN_ERR_INVALID_USAGE,
                       "destroy with a request that nobody has waited for");
    }
    // After a failure a request may also be destroyed at once.
    self.expect_ok(banyan_request_destroy(request), "destroy of the request");
    if (self.rank() == 2)
      self.expect_code(wait_for_error(self, comm), BANYAN_ERR_PEER_LOST, "what async_error says");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// Ranks read each other's memory; whoever changes its user afterwards may not be read any more.
TEST_P(Faults, RefusedReadingSaysWhy) {
  if (GetParam() == Kind::kThreads) GTEST_SKIP() << "threads may read themselves";
  run(2,
      [](Rank& self) {
        banyan_comm_t comm = self.join();
        if (comm == nullptr) return;
        std::vector<float> send(size_t{2} << 20), recv(send.size());
        self.verify(comm, 100, 1);
        self.meet();
        const int changed = geteuid() == 0 ? setuid(65534) : prctl(PR_SET_DUMPABLE, 0);
        self.expect(changed == 0, "cannot give rights up");
        self.meet();
        const banyan_result_t result = banyan_allreduce(send.data(), recv.data(), send.size(),
                                                        BANYAN_FLOAT32, BANYAN_SUM, comm);
        // Where it was never permitted, ranks do without.
        if (result == BANYAN_SUCCESS) return self.leave(comm);
        self.expect_code(result, BANYAN_ERR_SYSTEM, "an allreduce after setuid()");
        const std::string text = banyan_last_error(comm);
        for (const char* word : {"process_vm_readv: Operation not permitted", "rank 0", "rank 1",
                                 "when the communicator was made"})
          self.expect(text.find(word) != std::string::npos, text);
        check_failed(self, comm, BANYAN_ERR_SYSTEM);
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      },
      {.environment = {{"BANYAN_SINGLE_COPY", "64K"}}});
}

TEST_P(Faults, AbsentRanksAreNamed) {
  const std::vector<std::pair<int, std::vector<int>>> absences = {{5, {2, 4}}, {3, {0}}};
  for (const auto& [size, missing] : absences)
    run(size,
        [&, missing = missing](Rank& self) {
          banyan_unique_id_t id{};
          if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
          self.share(&id, sizeof id);
          if (std::count(missing.begin(), missing.end(), self.rank()) == 0) {
            banyan_config_t config = BANYAN_CONFIG_INIT;
            config.init_timeout_s = 0.5 * time_factor();
            banyan_comm_t comm = nullptr;
            const TimePoint begin = Clock::now();
            self.expect_code(banyan_comm_init(&comm, self.size(), &id, self.rank(), &config),
                             BANYAN_ERR_TIMEOUT, "init without some ranks");
            self.expect(seconds_since(begin) < config.init_timeout_s + stall_s(),
                        "init outlives its deadline");
            self.expect(comm == nullptr, "no communicator after a failure");
            const std::string text = banyan_last_error(nullptr);
            for (const int rank : missing)
              self.expect(text.find(std::to_string(rank)) != std::string::npos,
                          fmt::format("rank {} is not named: {}", rank, text));
          }
          self.meet();
        },
        // So long the rendezvous waits for the first rank, on a busy machine, too.
        {.environment = {{"BANYAN_INIT_TIMEOUT", "20"}}});
}

INSTANTIATE_TEST_SUITE_P(All, Faults, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::faults_test
