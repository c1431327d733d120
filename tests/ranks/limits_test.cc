// Ranks come to the limits of what the system gives them: all are told soon, or nobody notices.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "tests/ranks/ranks_fixture.h"
#include "tests/support/forbid.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "transports/transport.h"

namespace banyan::test::limits_test {
namespace {

class Limits : public WithRanks {};

TEST_P(Limits, OfOneRanksDescriptorsAreToldToAll) {
  for (const int victim : {0, 1, 2})
    for (int spare = 1; spare <= 13; spare += 2) {
      const TimePoint begin = Clock::now();
      Job job(GetParam(), 3, [&](Rank& self) {
        banyan_unique_id_t id{};
        if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
        self.share(&id, sizeof id);
        banyan_config_t config = BANYAN_CONFIG_INIT;
        config.init_timeout_s = 20 * time_factor();
        // Rank 0 holds the rendezvous, and both ends of its own connection to it.
        std::optional<FewDescriptors> few;
        if (self.rank() == victim) few.emplace(victim == 0 ? spare + 4 : spare);
        banyan_comm_t comm = nullptr;
        const banyan_result_t result = banyan_comm_init(&comm, 3, &id, self.rank(), &config);
        self.report(comm, result);
        self.meet();
        if (comm == nullptr) return;
        self.verify(comm, 10, 1);
        self.leave(comm);
      });
      job.finish();
      EXPECT_LT(seconds_since(begin), 5 * time_factor()) << spare << " for rank " << victim;
      for (int rank = 0; rank < 3; ++rank) {
        const Outcome& outcome = job.outcome(rank);
        ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
        EXPECT_EQ(outcome.code, job.outcome(victim).code) << outcome.text;
        if (outcome.code == BANYAN_SUCCESS) continue;
        EXPECT_EQ(outcome.code, BANYAN_ERR_SYSTEM) << outcome.text;
        EXPECT_TRUE(rank == victim ||
                    outcome.text.find(fmt::format("rank {}: ", victim)) != std::string::npos)
            << outcome.text;
      }
      if (HasFailure()) return;
    }
}

// Linux counts the descriptors that a user has under way, except for root.
TEST_P(Limits, OfDescriptorsUnderWayDelayNobody) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become a user without privileges";
  run(8, [](Rank& self) {
    constexpr unsigned kNobody = 65534;
    const rlimit limit{64, 64};
    self.expect(setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0 &&
                    prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0,
                "becoming nobody");
    for (int round = 0; round < 5; ++round) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      self.verify(comm, 10, 1);
      self.leave(comm);
    }
  });
}

// A rank that cannot have the other pass a fence, nor the other it: both do so themselves.
TEST_P(Limits, OfOneRanksFencesAreNobodysLoss) {
  run(2, [](Rank& self) {
    if (self.rank() == 1) self.expect(forbid(SYS_membarrier), "forbidding membarrier");
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    const TimePoint begin = Clock::now();
    for (uint64_t call = 0; call < 50; ++call) {
      if (static_cast<uint64_t>(self.rank()) == call % 2) {
        // The other yields for a millisecond, then sleeps, and is to wake when this rank comes. If
        // it is not asleep yet on a busy machine, the round tests less and fails no sooner.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      self.verify(comm, 10, call);
    }
    self.expect(seconds_since(begin) < 5 * time_factor(), "nobody is left asleep");
    self.leave(comm);
  });
}

// A rank is as in a container that may not make memory to share, or is handed none: to all ranks
// alike it is a host of its own, which the network reaches.
TEST_P(Limits, OfOneRanksMemoryAreTheNetworksToOvercome) {
  if (kThreadSanitizer) GTEST_SKIP() << "UCX dies in a child of fork() under the thread sanitizer";
  for (const TransportKind& kind : transport_kinds())
    if (kind.name == "ucx" && !kind.missing().empty()) GTEST_SKIP() << kind.missing();
  // Rank 0 hands its memory to the others.
  for (const auto& [victim, call] : {std::pair(0, SYS_memfd_create), std::pair(1, SYS_memfd_create),
                                     std::pair(2, SYS_recvmsg)}) {
    const TemporaryFolder folder;
    const std::string log = (folder.path() / "log").string();
    const auto body = [&, victim = victim, call = call](Rank& self) {
      if (self.rank() == victim) {
        const unsigned flags =
            call == SYS_recvmsg ? MSG_CMSG_CLOEXEC : 0;  // descriptors, not netlink
        self.expect(forbid(call, flags), "forbidding a call of the system");
      }
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      for (uint64_t round = 0; round < 5; ++round) self.verify(comm, 5000, round);
      self.leave(comm);
    };
    run(3, body, {.environment = {{"BANYAN_DEBUG_FILE", log}}});
    std::ifstream lines(log);
    const std::string said((std::istreambuf_iterator<char>(lines)), {});
    EXPECT_NE(said.find(") shares no memory with others of its host"), std::string::npos) << said;
    if (HasFailure()) return;
  }
}

TEST_P(Limits, OfOneRanksMemoryAreToldToAllWithoutANetwork) {
  for (const int victim : {0, 1}) {
    Job job(GetParam(), 2,
            [&](Rank& self) {
              if (self.rank() == victim)
                self.expect(forbid(SYS_memfd_create), "forbidding memfd_create");
              banyan_unique_id_t id{};
              if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
              self.share(&id, sizeof id);
              banyan_comm_t comm = nullptr;
              self.report(comm, banyan_comm_init(&comm, 2, &id, self.rank(), nullptr));
            },
            {.environment = {{"BANYAN_TRANSPORTS", "shm"}}});
    job.finish();
    for (int rank = 0; rank < 2; ++rank) {
      const Outcome& outcome = job.outcome(rank);
      ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
      EXPECT_EQ(outcome.code, BANYAN_ERR_SYSTEM) << outcome.text;
      EXPECT_NE(outcome.text.find("memfd_create"), std::string::npos) << outcome.text;
    }
  }
}

// docs/architecture.md says what a job takes.
TEST_P(Limits, OfDescriptorsAreTwoForEachRankOfTheHost) {
  const auto held_by_one_of = [&](int size) {
    Job job(GetParam(), size, [](Rank& self) {
      const int before = holdings().descriptors;
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      self.verify(comm, 10, 1);
      self.report(comm, BANYAN_SUCCESS, holdings().descriptors - before);
      self.leave(comm);
    });
    job.finish();
    return static_cast<int>(job.outcome(1).seconds);
  };
  const int of_four = held_by_one_of(4);
  EXPECT_EQ(held_by_one_of(8) - of_four, 2 * 4);
  EXPECT_LE(of_four, 2 * 3 + 6);
}

TEST_P(Limits, ThatAreTooLowAreSaidAtTheStart) {
  constexpr int kVictim = 3;
  Job job(GetParam(), 5, [](Rank& self) {
    banyan_unique_id_t id{};
    if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
    self.share(&id, sizeof id);
    std::optional<FewDescriptors> few;
    if (self.rank() == kVictim) few.emplace(8);
    banyan_comm_t comm = nullptr;
    self.report(comm, banyan_comm_init(&comm, 5, &id, self.rank(), nullptr));
  });
  job.finish();
  for (int rank = 0; rank < 5; ++rank) {
    const Outcome& outcome = job.outcome(rank);
    EXPECT_EQ(outcome.code, BANYAN_ERR_SYSTEM) << outcome.text;
    for (const char* part : {"5 of them on this host, takes 16 descriptors", "(ulimit -n) to "})
      EXPECT_NE(outcome.text.find(part), std::string::npos) << outcome.text;
    EXPECT_TRUE(rank == kVictim || outcome.text.find("rank 3: ") != std::string::npos)
        << outcome.text;
  }
}

// The process of rank 0 lets the others in, and has room for some of them only.
TEST_P(Limits, OfWhereTheRanksMeetAreToldToAll) {
  Job job(GetParam(), 6, [](Rank& self) {
    banyan_unique_id_t id{};
    if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
    std::optional<FewDescriptors> few;
    if (self.rank() == 0) few.emplace(4);
    self.share(&id, sizeof id);
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.init_timeout_s = 20 * time_factor();
    banyan_comm_t comm = nullptr;
    const TimePoint begin = Clock::now();
    const banyan_result_t result = banyan_comm_init(&comm, 6, &id, self.rank(), &config);
    self.report(comm, result, seconds_since(begin));
    self.meet();
  });
  job.finish();
  for (int rank = 0; rank < 6; ++rank) {
    const Outcome& outcome = job.outcome(rank);
    EXPECT_EQ(outcome.code, BANYAN_ERR_SYSTEM) << outcome.text;
    EXPECT_LT(outcome.seconds, 5 * time_factor()) << outcome.text;
    if (rank > 0) {
      EXPECT_NE(outcome.text.find("(ulimit -n) to "), std::string::npos) << outcome.text;
    }
  }
}

// A timer may be faster than the kernel takes pages; still nobody waits for ever.
TEST_P(Limits, OfOneRanksPatienceWithSignalsAreToldToAll) {
  for (const int victim : {0, 2}) {
    const double patience = 4 * time_factor();
    Job job(GetParam(), 3, [&](Rank& self) {
      if (self.rank() == victim)
        self.expect(forbid(SYS_fallocate, 0, EINTR), "interrupting fallocate");
      banyan_unique_id_t id{};
      if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
      self.share(&id, sizeof id);
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.init_timeout_s = patience;
      banyan_comm_t comm = nullptr;
      const TimePoint begin = Clock::now();
      const banyan_result_t result = banyan_comm_init(&comm, 3, &id, self.rank(), &config);
      self.report(comm, result, seconds_since(begin));
    });
    job.finish();
    for (int rank = 0; rank < 3; ++rank) {
      const Outcome& outcome = job.outcome(rank);
      ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
      EXPECT_EQ(outcome.code, BANYAN_ERR_TIMEOUT) << outcome.text;
      EXPECT_NE(outcome.text.find("signals interrupt it again and again"), std::string::npos)
          << outcome.text;
      EXPECT_TRUE(rank == victim ||
                  outcome.text.find(fmt::format("rank {}: ", victim)) != std::string::npos)
          << outcome.text;
      EXPECT_LT(outcome.seconds, patience);
    }
  }
}

// What libraries open that the library calls counts, too: UCX has sockets, and hwloc files.
TEST_P(Limits, ClosedStreamsAreNobodysSockets) {
  for (const TransportKind& kind : transport_kinds()) {
    if (kind.name == "loopback" || !kind.missing().empty()) continue;
    if (kThreadSanitizer && kind.name == "ucx") continue;  // it dies in a child of fork() there
    const std::string transports(kind.name);
    run(2, [&](Rank& self) {
      if (self.rank() == 0)
        for (const int stream : {0, 1, 2}) ::close(stream);
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.transports = transports.c_str();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      for (const size_t count : {size_t{1}, size_t{100000}}) self.verify(comm, count, 1);
      const char line[] = "the program's own\n";
      for (const int stream : {0, 1, 2})
        if (self.rank() == 0)
          self.expect(::write(stream, line, sizeof line) < 0 && errno == EBADF,
                      fmt::format("{}: {} is what the program left it", transports, stream));
      self.verify(comm, 10, 1);
      self.leave(comm);
      for (const int stream : {0, 1, 2})
        if (self.rank() == 0)
          self.expect(::fcntl(stream, F_GETFD) < 0, "it is closed again afterwards");
    });
  }
}

// Threads share their descriptors.
INSTANTIATE_TEST_SUITE_P(All, Limits, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::limits_test
