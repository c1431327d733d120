// Ranks live in namespaces of their own, as in containers: what only some of them see of the others
// decides nothing, and a number that stands for several users proves none.
// SPDX-License-Identifier: Apache-2.0

#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/ranks/ranks_fixture.h"
#include "tests/support/free_port.h"

namespace banyan::test::namespaces_test {
namespace {

class Namespaces : public WithRanks {};

bool can_make(int kind) {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(kind) == 0 ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

// Runs the body in the first process of a PID namespace, which sees nobody outside. The rank itself
// stays as it is, since the leak checker, which ends it, does not work in a process that unshared.
void be_alone(Rank& self, const Job::Body& body) {
  const auto ends_well = [](pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
  };
  const pid_t outside = fork();
  if (outside == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWPID) != 0) _exit(1);
    const pid_t inside = fork();
    if (inside == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(self);
      _exit(0);  // without a search for leaks, which takes /proc for that of this namespace
    }
    _exit(ends_well(inside) ? 0 : 1);
  }
  self.expect(ends_well(outside), "the process inside ended badly");
}

// Two outside see all four; each of the others sees itself.
TEST_P(Namespaces, OfProcessesLeaveAllWithTheSameTransports) {
  if (!can_make(CLONE_NEWPID)) GTEST_SKIP() << "PID namespaces are not allowed here";
  for (const char* transports : {"loopback,shm", "shm"}) {
    const auto body = [](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.init_timeout_s = 10 * time_factor();
      config.timeout_s = 10 * time_factor();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      for (uint64_t round = 0; round < 5; ++round) self.verify(comm, 50000, round);
      self.leave(comm);
    };
    run(4, [&](Rank& self) { self.rank() < 2 ? body(self) : be_alone(self, body); },
        {.environment = {{"BANYAN_TRANSPORTS", transports}}});
    if (HasFailure()) return;
  }
}

// The watcher of a process must see it: here ranks 1 and 2 see nobody, and nobody sees back.
TEST_P(Namespaces, OfProcessesHideNoDeath) {
  if (!can_make(CLONE_NEWPID)) GTEST_SKIP() << "PID namespaces are not allowed here";
  Job job(GetParam(), 4, [](Rank& self) {
    const auto body = [](Rank& inside) {
      banyan_comm_t comm = inside.join();
      if (comm == nullptr) return;
      inside.verify(comm, 10, 1);
      if (inside.rank() == 3 && fork() == 0) {
        sleep(4);  // holds the sockets of its parent, longer than anybody may need to notice
        _exit(0);
      }
      inside.mark(1);
      inside.report(comm, wait_for_error(inside, comm));
      inside.expect_ok(banyan_comm_destroy(comm), "destroy");
    };
    self.rank() == 1 || self.rank() == 2 ? be_alone(self, body) : body(self);
  });
  ASSERT_TRUE(job.wait_for_marks(1, 20));
  const TimePoint killed = Clock::now();
  job.signal(3, SIGKILL);
  job.finish();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.outcome(rank).code, BANYAN_ERR_PEER_LOST) << job.outcome(rank).text;
    EXPECT_EQ(job.outcome(rank).failed_rank, 3);
    EXPECT_LT(std::chrono::duration<double>(job.outcome(rank).at - killed).count(), stall_s());
  }
}

// Both are shown to each other as the user of whom there are all that have no number.
TEST_P(Namespaces, OfUsersWithoutAMapNeedASecret) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become two users without privileges";
  if (!can_make(CLONE_NEWUSER)) GTEST_SKIP() << "user namespaces are not allowed here";
  for (const bool secret : {false, true}) {
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    run(2, [&](Rank& self) {
      const auto user = static_cast<unsigned>(1000 + self.rank());
      self.expect(setgroups(0, nullptr) == 0 && setgid(user) == 0 && setuid(user) == 0 &&
                      unshare(CLONE_NEWUSER) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0,
                  "becoming a user without a number");
      setenv("BANYAN_RANK", std::to_string(self.rank()).c_str(), 1);
      setenv("BANYAN_SIZE", "2", 1);
      setenv("BANYAN_ADDRESS", address.c_str(), 1);
      if (secret) setenv("BANYAN_SECRET", "of this test", 1);
      banyan_comm_t comm = nullptr;
      const banyan_result_t result = banyan_comm_init_env(&comm, nullptr);
      if (secret) {
        if (!self.expect_ok(result, "init_env with a secret")) return;
        self.verify(comm, 1000, 1);
        self.leave(comm);
        return;
      }
      self.expect_code(result, BANYAN_ERR_MISMATCH, "init_env without a secret");
      const std::string text = banyan_last_error(nullptr);
      for (const char* part : {"runs as user 65534", "BANYAN_SECRET"})
        self.expect(text.find(part) != std::string::npos, text);
    });
    if (HasFailure()) return;
  }
}

// Threads have their namespaces in common.
INSTANTIATE_TEST_SUITE_P(All, Namespaces, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::namespaces_test
