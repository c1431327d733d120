// What launchers say, and meeting under them.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/launcher.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "src/bootstrap/rendezvous_socket.h"
#include "src/bootstrap/slurm.h"
#include "tests/support/rendezvous_place.h"

namespace banyan::launcher_test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

Environment with_secret(std::string_view secret) {
  Environment environment;
  environment.secret = secret;
  return environment;
}

Result<Launch> detect(const Variables& variables, std::string_view secret = "") {
  return detect_launch(RawEnvironment(variables), with_secret(secret));
}

uint16_t free_port() {
  Address address;
  address.ip = {127, 0, 0, 1};
  return listen_at(address, {})->address.port;
}

Variables own(int rank, int size, const std::string& address) {
  return {{"BANYAN_RANK", fmt::format("{}", rank)},
          {"BANYAN_SIZE", fmt::format("{}", size)},
          {"BANYAN_ADDRESS", address}};
}

Variables torch(int rank, int size, uint16_t port) {
  return {{"RANK", fmt::format("{}", rank)},
          {"WORLD_SIZE", fmt::format("{}", size)},
          {"LOCAL_RANK", fmt::format("{}", rank)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", fmt::format("{}", port)}};
}

Variables slurm(int rank, int size) {
  return {{"SLURM_JOB_ID", "4242"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", fmt::format("{}", rank)},
          {"SLURM_NTASKS", fmt::format("{}", size)},
          {"SLURM_LOCALID", fmt::format("{}", rank)},
          {"SLURM_NNODES", "1"},
          {"SLURM_STEP_NODELIST", "localhost"}};
}

Variables hydra(int rank, int size) {
  return {{"PMI_RANK", fmt::format("{}", rank)},
          {"PMI_SIZE", fmt::format("{}", size)},
          {"PMI_FD", "9"},
          {"MPI_LOCALRANKID", "1"}};
}

Variables open_mpi(int rank, int size) {
  return {{"OMPI_COMM_WORLD_RANK", fmt::format("{}", rank)},
          {"OMPI_COMM_WORLD_SIZE", fmt::format("{}", size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
          {"PMIX_NAMESPACE", "job"},
          {"PMIX_RANK", fmt::format("{}", rank)}};
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The same with one variable set otherwise.
Variables but(Variables variables, const std::string& name, const std::string& value) {
  for (auto& entry : variables) {
    if (entry.first == name) entry.second = value;
  }
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  std::erase_if(variables, [&name](const auto& entry) { return entry.first == name; });
  return variables;
}

TEST(Detect, ReadsEveryLauncher) {
  struct Case {
    Variables variables;
    LauncherKind kind;
    int local_rank;
  };
  const std::vector<Case> cases = {
      {own(3, 5, "127.0.0.1:4711"), LauncherKind::kOwn, -1},
      {own(3, 5, "localhost:4711") + Variables{{"BANYAN_LOCAL_RANK", "1"}}, LauncherKind::kOwn, 1},
      {torch(3, 5, 29500), LauncherKind::kTorchrun, 3},
      {open_mpi(3, 5), LauncherKind::kOpenMpi, 2},
      {hydra(3, 5), LauncherKind::kHydra, 1},
      {slurm(3, 5), LauncherKind::kSlurm, 3},
      {slurm(3, 5) + Variables{{"PMIX_NAMESPACE", "slurm.1.0"}, {"PMIX_RANK", "3"}},
       LauncherKind::kPmix, 3}};
  for (const Case& one : cases) {
    const auto launch = detect(one.variables);
    ASSERT_TRUE(launch.ok()) << name_of(one.kind) << ": " << launch.status().message();
    EXPECT_EQ(launch->kind, one.kind);
    EXPECT_EQ(launch->rank, 3);
    EXPECT_EQ(launch->size, 5);
    EXPECT_EQ(launch->local_rank, one.local_rank);
    EXPECT_FALSE(launch->secret_is_private);
  }
}

TEST(Detect, OnlyWhoeverSharesAHostMayMeetOnLoopback) {
  const auto named = but(torch(1, 4, 29500), "MASTER_ADDR", "node7");
  const Variables pmix{{"PMIX_NAMESPACE", "slurm.1.0"}, {"PMIX_RANK", "1"}};
  const std::vector<std::pair<Variables, bool>> cases = {
      {own(1, 4, "localhost:4711"), true},
      {own(1, 4, "node7:4711"), false},
      {torch(1, 4, 29500), true},
      {named, false},
      {named + Variables{{"LOCAL_WORLD_SIZE", "2"}}, false},
      {named + Variables{{"LOCAL_WORLD_SIZE", "4"}}, true},
      {open_mpi(1, 4), false},
      {open_mpi(1, 4) + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, true},
      {hydra(1, 4) + Variables{{"MPI_LOCALNRANKS", "3"}}, false},
      {hydra(1, 4) + Variables{{"MPI_LOCALNRANKS", "4"}}, true},
      {slurm(1, 4), true},
      {but(slurm(1, 4), "SLURM_NNODES", "2"), false},
      {slurm(1, 4) + Variables{{"SLURM_STEP_NUM_NODES", "2"}}, false},
      {slurm(1, 4) + pmix, true},
      {but(slurm(1, 4), "SLURM_NNODES", "2") + pmix, false}};
  for (const auto& [variables, one_host] : cases) {
    const auto launch = detect(variables, "tulip");
    ASSERT_TRUE(launch.ok()) << launch.status().message();
    EXPECT_EQ(launch->one_host, one_host)
        << name_of(launch->kind) << " " << testing::PrintToString(variables);
  }
}

TEST(Detect, TheMostParticularOneWins) {
  const Variables slurms = slurm(0, 3);
  const Variables mpich = hydra(0, 3) + slurms;
  const Variables open = open_mpi(0, 3) + mpich;
  EXPECT_EQ(detect(own(0, 3, "127.0.0.1:4711") + torch(0, 3, 29500) + open)->kind,
            LauncherKind::kOwn);
  EXPECT_EQ(detect(torch(0, 3, 29500) + open)->kind, LauncherKind::kTorchrun);
  EXPECT_EQ(detect(open)->kind, LauncherKind::kOpenMpi);
  EXPECT_EQ(detect(mpich)->kind, LauncherKind::kHydra);
  EXPECT_EQ(detect(slurms)->kind, LauncherKind::kSlurm);
}

TEST(Detect, NothingNamesWhatWasLookedFor) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", "1"}}, Variables{{"PMI_RANK", "1"}},
        // A batch script is no step, nor is an allocation.
        without(slurm(0, 4), "SLURM_STEP_ID"), but(slurm(0, 4), "SLURM_STEP_ID", "4294967291"),
        Variables{{"SLURM_NTASKS", "4"}}}) {
    const auto launch = detect(variables);
    EXPECT_EQ(launch.status().code(), Code::kInvalidUsage);
    for (const char* word : {"BANYAN_RANK", "mpirun", "srun", "torchrun"}) {
      EXPECT_NE(launch.status().message().find(word), std::string_view::npos) << word;
    }
  }
}

TEST(Detect, WrongValuesAreNamed) {
  struct Case {
    Variables variables;
    std::vector<std::string> named;
  };
  const std::string here = "127.0.0.1:4711";
  const std::vector<Case> cases = {
      {own(4, 4, here), {"BANYAN_RANK=4", "0 to 3", "BANYAN_SIZE=4"}},
      {but(own(0, 4, here), "BANYAN_RANK", "x"), {"BANYAN_RANK=x", "0 to 3"}},
      {own(0, 0, here), {"BANYAN_SIZE=0", "1 to 65536"}},
      {own(-1, 4, here), {"BANYAN_RANK=-1"}},
      {own(0, 65537, here), {"BANYAN_SIZE=65537"}},
      {without(own(0, 4, here), "BANYAN_SIZE"), {"BANYAN_SIZE is not set"}},
      {without(own(0, 4, here), "BANYAN_RANK"), {"BANYAN_RANK is not set"}},
      {without(own(0, 4, here), "BANYAN_ADDRESS"), {"BANYAN_ADDRESS", "HOST:PORT"}},
      {own(0, 2, "nowhere"), {"BANYAN_ADDRESS", "nowhere", "HOST:PORT"}},
      {own(0, 2, "127.0.0.1:99999"), {"BANYAN_ADDRESS", "65535"}},
      {own(0, 2, "192.0.2.1:5000"), {"BANYAN_SECRET", "192.0.2.1:5000"}},
      {own(0, 2, "host.example:5000"), {"BANYAN_SECRET"}},
      {own(0, 2, here) + Variables{{"BANYAN_LOCAL_RANK", "7"}}, {"BANYAN_LOCAL_RANK=7"}},
      {but(torch(0, 2, 1), "RANK", "2"), {"RANK=2", "WORLD_SIZE=2"}},
      {but(torch(0, 2, 1), "MASTER_PORT", "http"), {"MASTER_PORT=http"}},
      {but(torch(0, 2, 1), "MASTER_ADDR", ""), {"MASTER_ADDR"}},
      {without(torch(0, 2, 1), "MASTER_PORT"), {"MASTER_PORT is not set"}},
      {but(open_mpi(0, 2), "OMPI_COMM_WORLD_SIZE", ""), {"OMPI_COMM_WORLD_SIZE="}},
      {without(hydra(0, 2), "PMI_SIZE"), {"PMI_SIZE is not set"}},
      {but(hydra(0, 2), "PMI_FD", "seven"), {"PMI_FD=seven"}},
      {but(slurm(5, 4), "SLURM_NTASKS", "4"), {"SLURM_PROCID=5", "SLURM_NTASKS=4"}},
      {but(but(slurm(0, 4), "SLURM_NNODES", "2"), "SLURM_STEP_NODELIST", "a[1-"),
       {"SLURM_STEP_NODELIST", "a[1-", "position"}},
      {but(slurm(0, 4), "SLURM_JOB_ID", "first"), {"SLURM_JOB_ID=first"}}};
  for (const Case& one : cases) {
    const auto launch = detect(one.variables);
    EXPECT_EQ(launch.status().code(), Code::kInvalidArgument) << one.named[0];
    for (const std::string& word : one.named) {
      EXPECT_NE(launch.status().message().find(word), std::string_view::npos)
          << word << " in: " << launch.status().message();
    }
  }
}

TEST(Detect, OneRankNeedsNoAddress) {
  const auto launch = detect({{"BANYAN_RANK", "0"}, {"BANYAN_SIZE", "1"}});
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_TRUE(launch->addresses.empty());
}

TEST(Detect, ASecretOpensOtherAddresses) {
  const auto launch = detect(own(0, 2, "192.0.2.1:5000"), "tulip");
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_TRUE(launch->secret_is_private);
  EXPECT_EQ(launch->addresses, std::vector<std::string>{"192.0.2.1:5000"});
}

TEST(Detect, TorchrunsAgentHoldsThePort) {
  const auto plain = detect(torch(0, 2, 29500));
  ASSERT_EQ(plain->addresses.size(), 17u);
  EXPECT_EQ(plain->addresses.front(), "127.0.0.1:29500");
  EXPECT_EQ(plain->addresses.back(), "127.0.0.1:29516");
  const auto agent =
      detect(torch(0, 2, 29500) + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_EQ(agent->addresses.size(), 16u);
  EXPECT_EQ(agent->addresses.front(), "127.0.0.1:29501");
  EXPECT_EQ(detect(torch(0, 2, 65530))->addresses.size(), 6u);
  EXPECT_EQ(detect(but(torch(0, 2, 80), "MASTER_ADDR", "::1"))->addresses.front(), "[::1]:80");
  // Other jobs and ports have other keys, ranks of one job the same.
  EXPECT_EQ(plain->secret, detect(torch(1, 2, 29500))->secret);
  EXPECT_NE(plain->secret, detect(torch(0, 2, 29501))->secret);
  EXPECT_NE(plain->secret,
            detect(torch(0, 2, 29500) + Variables{{"TORCHELASTIC_RUN_ID", "7"}})->secret);
  EXPECT_NE(plain->secret, detect(torch(0, 2, 29500), "tulip")->secret);
}

TEST(Detect, SlurmMeetsOnTheFirstHost) {
  const auto one_node = detect(slurm(0, 4));
  ASSERT_EQ(one_node->addresses.size(), 16u);
  EXPECT_EQ(one_node->addresses[0].rfind("127.0.0.1:", 0), 0u);
  const auto many =
      detect(but(but(slurm(1, 4), "SLURM_NNODES", "3"), "SLURM_STEP_NODELIST", "gpu[08-10]"));
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->addresses[0].rfind("gpu08:", 0), 0u);
  EXPECT_NE(many->secret, detect(but(slurm(1, 4), "SLURM_STEP_ID", "1"))->secret);
}

TEST(Slurm, FirstHostOfALit) {
  for (const auto& [list, first] :
       std::map<std::string, std::string>{{"a", "a"},
                                          {"a,b", "a"},
                                          {"a[1-3,7],b", "a1"},
                                          {"n[08-12]", "n08"},
                                          {"rack[2]node[3-4].example", "rack2node3.example"},
                                          {"x-1.y", "x-1.y"}}) {
    const auto host = first_host(list);
    ASSERT_TRUE(host.ok()) << list << host.status().message();
    EXPECT_EQ(*host, first);
  }
  for (const char* bad :
       {"", ",a", "a[", "a[]", "a[1", "a[1-", "a[x]", "a]", "a b", "a[1;2]", "a\n"}) {
    EXPECT_EQ(first_host(bad).status().code(), Code::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(first_host(std::string(100'000, 'a')).ok());
}

TEST(Slurm, StepsHavePortsOfTheirOwn) {
  EXPECT_EQ(step_ports(1, 0, {}), step_ports(1, 0, {}));
  EXPECT_NE(step_ports(1, 0, {}), step_ports(1, 1, {}));
  for (uint64_t job = 0; job < 1000; ++job) {
    const auto ports = step_ports(job, 0, {});
    ASSERT_EQ(ports.size(), 16u);
    EXPECT_GT(ports.front(), 60999);
    EXPECT_LT(ports.front(), ports.back());
  }
  for (const uint16_t port : step_ports(7, 7, {5000, 5003})) {
    EXPECT_GE(port, 5000);
    EXPECT_LE(port, 5003);
  }
  EXPECT_EQ(step_ports(7, 7, {5000, 5003}).size(), 4u);
}

void meets(int size, const std::function<Variables(int)>& variables, std::string_view secret = "",
           int times = 1) {
  together(size, [&](int rank) {
    const RawEnvironment raw(variables(rank));
    const Environment environment = with_secret(secret);
    for (int count = 0; count < times; ++count) {
      const auto launch = detect_launch(raw, environment);
      ASSERT_TRUE(launch.ok()) << launch.status().message();
      const auto exchange = meet(*launch, raw, environment, count, deadline_after(20), silent());
      ASSERT_TRUE(exchange.ok()) << exchange.status().message();
      EXPECT_EQ((*exchange)->rank(), rank);
      EXPECT_EQ((*exchange)->size(), size);
      const std::byte mine[] = {static_cast<std::byte>(rank), static_cast<std::byte>(count)};
      const auto all = (*exchange)->allgather(mine, deadline_after(20));
      ASSERT_TRUE(all.ok()) << all.status().message();
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ((*all)[static_cast<size_t>(peer)],
                  (Bytes{static_cast<std::byte>(peer), static_cast<std::byte>(count)}));
      }
    }
  });
}

TEST(Meet, ByOwnVariables) {
  for (const int size : {1, 2, 5, 9}) {
    const std::string address = fmt::format("127.0.0.1:{}", free_port());
    meets(size, [&](int rank) { return own(rank, size, address); });
    meets(
        size, [&](int rank) { return own(rank, size, address); }, "tulip");
  }
}

TEST(Meet, AgainAndAgainAtOneAddress) {
  const std::string address = fmt::format("localhost:{}", free_port());
  meets(
      3, [&](int rank) { return own(rank, 3, address); }, "", 20);
}

TEST(Meet, ByTorchrunsVariables) {
  const uint16_t port = free_port();
  meets(
      3, [port](int rank) { return torch(rank, 3, port); }, "", 3);
}

TEST(Meet, BesideTorchrunsAgent) {
  Address address;
  address.ip = {127, 0, 0, 1};
  const auto agent = listen_at(address, {});  // says nothing
  const uint16_t port = agent->address.port;
  meets(3, [port](int rank) {
    return torch(rank, 3, port) + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  });
  meets(2, [port](int rank) { return torch(rank, 2, port); });  // and where that is not said
}

TEST(Meet, BySlurmsVariables) {
  meets(3, [](int rank) { return slurm(rank, 3); });
}

TEST(Meet, TwoJobsAtOneAddressDoNotMix) {
  const uint16_t port = free_port();
  std::thread other([port] {
    meets(3, [port](int rank) {
      return torch(rank, 3, port) + Variables{{"TORCHELASTIC_RUN_ID", "other"}};
    });
  });
  meets(3, [port](int rank) { return torch(rank, 3, port); });
  other.join();
}

TEST(Meet, TheMissingAreNamed) {
  const RawEnvironment raw(own(0, 3, fmt::format("127.0.0.1:{}", free_port())));
  const auto launch = detect_launch(raw, {});
  const auto exchange = meet(*launch, raw, {}, 0, deadline_after(0.2), silent());
  EXPECT_EQ(exchange.status().code(), Code::kTimeout);
  for (const char* words : {"ranks 1 and 2 of 3", "BANYAN_RANK=0, BANYAN_SIZE=3"})
    EXPECT_NE(exchange.status().message().find(words), std::string_view::npos)
        << exchange.status().message();
}

TEST(Meet, ATakenPortIsNamed) {
  Address address;
  address.ip = {127, 0, 0, 1};
  const auto taken = listen_at(address, {});
  const RawEnvironment raw(own(0, 3, taken->address.text()));
  const auto launch = detect_launch(raw, {});
  const auto exchange = meet(*launch, raw, {}, 0, deadline_after(0.1), silent());
  EXPECT_EQ(exchange.status().code(), Code::kSystem);
  EXPECT_NE(exchange.status().message().find(taken->address.text()), std::string_view::npos)
      << exchange.status().message();
}

TEST(Meet, AnotherRank0IsToldToAll) {
  const uint16_t port = free_port();
  const std::string address = fmt::format("127.0.0.1:{}", port);
  constexpr int kRanks[] = {0, 0, 1, 0};
  for (const bool under_torchrun : {false, true}) {
    together(4, [&](int number) {
      const int rank = kRanks[number];
      const RawEnvironment raw(under_torchrun ? torch(rank, 5, port) : own(rank, 5, address));
      const auto launch = detect_launch(raw, {});
      const auto exchange = meet(*launch, raw, {}, 0, deadline_after(20), silent());
      EXPECT_EQ(exchange.status().code(), Code::kMismatch) << exchange.status().message();
      for (const std::string& words :
           {std::string("rank 0 came twice"), fmt::format("RANK={}", rank)})
        EXPECT_NE(exchange.status().message().find(words), std::string_view::npos)
            << exchange.status().message();
    });
  }
}

TEST(Meet, ARestartedRank0IsNotToldOfThoseBefore) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  const RawEnvironment raw(own(0, 3, address));
  const auto launch = detect_launch(raw, {});
  together(2, [&](int number) {
    const RawEnvironment other(own(number, 3 + number, address));
    const auto told =
        meet(*detect_launch(other, {}), other, {}, 0, deadline_after(20), silent()).status();
    EXPECT_EQ(told.code(), Code::kMismatch) << told.message();
  });
  // Everybody is told of a verdict that is younger than a tenth of a second, so the next meeting
  // has to begin later than that: nothing else would show that the verdict is too old.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto again = meet(*launch, raw, {}, 0, deadline_after(0.2), silent()).status();
  EXPECT_NE(again.code(), Code::kMismatch) << again.message();
}

Status meet_once(const Variables& variables, int count, double seconds) {
  const RawEnvironment raw(variables);
  const auto launch = detect_launch(raw, {});
  return meet(*launch, raw, {}, count, deadline_after(seconds), silent()).status();
}

TEST(Meet, ALaterCallTakesTheAddressOver) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  for (int count = 0; count < 3; ++count) {
    const TimePoint begin = Clock::now();
    const Status alone = meet_once(own(0, 3, address), count, 0.3);
    EXPECT_EQ(alone.code(), Code::kTimeout) << alone.message();
    EXPECT_TRUE(has(alone, "ranks 1 and 2 of 3 have not arrived")) << alone.message();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
  }
  // Everybody is told of a verdict that is younger than a tenth of a second.
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  pause();
  together(2, [&](int rank) {
    const Status one_is_missing = meet_once(own(rank, 3, address), 3 - rank, 0.5);
    EXPECT_EQ(one_is_missing.code(), Code::kTimeout) << one_is_missing.message();
  });
  pause();
  constexpr int kCounts[] = {4, 3, 0};  // so often they have given up
  together(3, [&](int rank) {
    const Status met = meet_once(own(rank, 3, address), kCounts[rank], 20);
    EXPECT_TRUE(met.ok()) << "rank " << rank << ": " << met.message();
  });
}

}  // namespace
}  // namespace banyan::launcher_test
