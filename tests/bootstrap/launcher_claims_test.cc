// Launchers inside launchers, and variables that outlive them: the matrix of docs/launch.md.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/launcher_claims.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace banyan::launcher_claims_test {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

Entries operator+(Entries a, const Entries& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string number(int value) {
  return fmt::format("{}", value);
}

Entries own(int rank, int size) {
  return {{"BANYAN_RANK", number(rank)},
          {"BANYAN_SIZE", number(size)},
          {"BANYAN_ADDRESS", "127.0.0.1:4711"}};
}

// As an operator's pod has them.
Entries pod(int rank, int size) {
  return {{"RANK", number(rank)},
          {"WORLD_SIZE", number(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

// As torchrun's agent in `group` sets them.
Entries torchrun(int rank, int size, int group, int groups) {
  return pod(rank, size) + Entries{{"LOCAL_RANK", number(rank % (size / groups))},
                                   {"LOCAL_WORLD_SIZE", number(size / groups)},
                                   {"GROUP_RANK", number(group)},
                                   {"GROUP_WORLD_SIZE", number(groups)},
                                   {"TORCHELASTIC_RUN_ID", "7"}};
}

Entries open_mpi(int rank, int size, int server = 0) {
  return {{"OMPI_COMM_WORLD_RANK", number(rank)},
          {"OMPI_COMM_WORLD_SIZE", number(size)},
          {"PMIX_NAMESPACE", "979435521"},
          {"PMIX_RANK", number(rank)},
          {"PMIX_SERVER_URI2", fmt::format("979435520.{};tcp4://127.0.0.1:55519", server)}};
}

Entries hydra(int rank, int size) {
  return {{"PMI_RANK", number(rank)}, {"PMI_SIZE", number(size)}, {"PMI_FD", "9"}};
}

Entries prrte(int rank) {
  return {{"PMIX_NAMESPACE", "prterun-a-17@1"}, {"PMIX_RANK", number(rank)}};
}

Entries step(int rank, int size) {
  return {{"SLURM_JOB_ID", "4242"},       {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", number(rank)}, {"SLURM_STEP_NUM_TASKS", number(size)},
          {"SLURM_NTASKS", "32"},         {"SLURM_NNODES", "1"}};
}

Entries batch() {
  return {{"SLURM_JOB_ID", "4242"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "32"},
          {"SLURM_NNODES", "1"}};
}

Entries pmix_of_slurm(int rank) {
  return {{"PMIX_NAMESPACE", "slurm.pmix.4242.0"},
          {"PMIX_RANK", number(rank)},
          {"PMIX_SERVER_URI2", "pmix-server.9588;tcp4://127.0.0.1:57841"}};
}

Result<Launch> detect(const Entries& entries) {
  return detect_launch(RawEnvironment(entries), Environment());
}

struct Row {
  const char* what;
  Entries variables;
  LauncherKind kind;
  int rank;
  int size;
};

TEST(Claims, WhoeverIsRightIsBelieved) {
  using enum LauncherKind;
  const Row rows[] = {
      {"a pod of one, mpirun in it", pod(0, 1) + open_mpi(3, 4), kOpenMpi, 3, 4},
      {"a pod of one, mpiexec in it", pod(0, 1) + hydra(3, 4), kHydra, 3, 4},
      {"a pod of one in a step", pod(0, 1) + step(3, 4), kSlurm, 3, 4},
      {"a pod of one in a step with PMIx", pod(0, 1) + step(3, 4) + pmix_of_slurm(3), kPmix, 3, 4},
      {"a pod of one, prun in it", pod(0, 1) + prrte(0), kPmix, 0, 0},
      {"torchrun of one in each of four tasks", torchrun(0, 1, 0, 1) + step(3, 4), kSlurm, 3, 4},
      {"a script that passes its rank on", pod(3, 4) + step(3, 4), kTorchrun, 3, 4},
      {"the same under mpirun", pod(3, 4) + open_mpi(3, 4), kTorchrun, 3, 4},
      {"mpirun started torchrun once", torchrun(2, 4, 0, 1) + open_mpi(0, 1), kTorchrun, 2, 4},
      {"mpirun started torchrun on two hosts", torchrun(2, 4, 1, 2) + open_mpi(1, 2), kTorchrun, 2,
       4},
      {"groups in another order", torchrun(2, 4, 1, 2) + open_mpi(0, 2), kTorchrun, 2, 4},
      {"srun started torchrun once", torchrun(2, 4, 0, 1) + step(0, 1), kTorchrun, 2, 4},
      {"srun started torchrun on two hosts", torchrun(2, 4, 1, 2) + step(1, 2), kTorchrun, 2, 4},
      {"one of three hosts has not come", torchrun(2, 4, 1, 2) + step(2, 3), kTorchrun, 2, 4},
      {"mpiexec started torchrun on two hosts", torchrun(3, 4, 1, 2) + hydra(1, 2), kTorchrun, 3,
       4},
      {"prun started torchrun on two hosts", torchrun(3, 4, 1, 2) + prrte(1), kTorchrun, 3, 4},
      {"mpirun in a batch script", batch() + open_mpi(3, 4), kOpenMpi, 3, 4},
      {"mpiexec in a batch script", batch() + hydra(3, 4), kHydra, 3, 4},
      {"torchrun in a batch script", batch() + torchrun(3, 4, 0, 1), kTorchrun, 3, 4},
      {"by hand in a batch script", batch() + own(3, 4), kOwn, 3, 4},
      {"mpirun in a step of one", step(0, 1) + open_mpi(3, 4), kOpenMpi, 3, 4},
      {"by hand in a step of one", step(0, 1) + own(3, 4), kOwn, 3, 4},
      {"mpirun's daemons in a step", step(1, 2) + open_mpi(3, 4), kOpenMpi, 3, 4},
      {"and for one rank", step(1, 2) + open_mpi(0, 1, 1), kOpenMpi, 0, 1},
      {"mpiexec's daemons in a step", step(1, 2) + hydra(3, 4), kHydra, 3, 4},
      {"and with PMIx of Slurm", step(1, 2) + pmix_of_slurm(1) + hydra(3, 4), kHydra, 3, 4},
      {"mpirun's daemons in a step with PMI", step(1, 2) + hydra(1, 2) + open_mpi(3, 4), kOpenMpi,
       3, 4},
      {"prun in an allocation", step(1, 2) + prrte(3), kPmix, 3, 0},
      {"PMI of a step", step(1, 2) + hydra(1, 2), kHydra, 1, 2},
      {"PMIx of a step", step(1, 2) + pmix_of_slurm(1), kPmix, 1, 2},
      {"srun with PMIx in mpirun of one", pmix_of_slurm(1) + open_mpi(0, 1) + step(1, 2), kPmix, 1,
       2},
      {"mpiexec in mpirun of one", open_mpi(0, 1) + hydra(3, 4), kHydra, 3, 4},
      {"mpirun of one in mpiexec", open_mpi(0, 1) + hydra(0, 4), kHydra, 0, 4},
      {"mpiexec of one in mpirun", open_mpi(3, 4) + hydra(0, 1), kOpenMpi, 3, 4},
      {"by hand, in other numbers, under mpirun", own(1, 2) + open_mpi(3, 4), kOwn, 1, 2},
      {"by hand what mpirun says", own(3, 4) + open_mpi(3, 4), kOwn, 3, 4},
      {"one rank by all", own(0, 1) + pod(0, 1) + open_mpi(0, 1) + hydra(0, 1), kOwn, 0, 1},
      {"mpirun's variables without mpirun",
       Entries{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}} + pod(3, 4), kTorchrun,
       3, 4},
  };
  for (const Row& row : rows) {
    const auto launch = detect(row.variables);
    ASSERT_TRUE(launch.ok()) << row.what << ": " << launch.status().message();
    EXPECT_EQ(launch->kind, row.kind) << row.what;
    EXPECT_EQ(launch->rank, row.rank) << row.what;
    EXPECT_EQ(launch->size, row.size) << row.what;
  }
}

TEST(Claims, WhereNothingDecidesBothAreNamed) {
  struct Case {
    const char* what;
    Entries variables;
    std::vector<std::string> named;
  };
  const std::string ours = "BANYAN_RANK=0, BANYAN_SIZE=1";
  const Case cases[] = {
      {"a pod of two, mpirun in one",
       pod(0, 2) + open_mpi(3, 4),
       {"torchrun says rank 0 of 2 (RANK=0, WORLD_SIZE=2)",
        "Open MPI says rank 3 of 4 (OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4)"}},
      {"another rank of as many", pod(0, 4) + open_mpi(3, 4), {"RANK=0", "OMPI_COMM_WORLD_RANK=3"}},
      {"a pod of two, mpiexec in one",
       pod(0, 2) + hydra(3, 4),
       {"RANK=0", "PMI_RANK=3, PMI_SIZE=4"}},
      {"a pod of two in a step",
       pod(0, 2) + step(3, 4),
       {"RANK=0", "Slurm says rank 3 of 4 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)"}},
      {"a pod of two, prun in one",
       pod(0, 2) + prrte(1),
       {"RANK=0", "PMIx says rank 1 (PMIX_RANK=1)"}},
      {"a torchrun of its own in every task",
       torchrun(1, 2, 0, 1) + step(1, 4),
       {"RANK=1, WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=4"}},
      {"a torchrun of its own under mpirun",
       torchrun(1, 2, 0, 1) + open_mpi(0, 2),
       {"RANK=1", "OMPI_COMM_WORLD_RANK=0"}},
      {"mpirun in every rank of torchrun",
       torchrun(0, 2, 0, 1) + open_mpi(3, 4),
       {"WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE=4"}},
      {"mpiexec in mpirun, the same number in both",
       open_mpi(1, 2) + hydra(1, 2),
       {"OMPI_COMM_WORLD_RANK=1", "PMI_RANK=1"}},
      {"mpiexec in mpirun",
       open_mpi(1, 2) + hydra(3, 4),
       {"OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=2", "PMI_RANK=3, PMI_SIZE=4"}},
      {"as many in as many",
       open_mpi(1, 2) + hydra(0, 2),
       {"OMPI_COMM_WORLD_RANK=1", "PMI_RANK=0"}},
      {"mpirun of one in every task",
       step(3, 4) + open_mpi(0, 1),
       {"SLURM_PROCID=3", "OMPI_COMM_WORLD_SIZE=1"}},
      {"mpiexec of one in every task", step(3, 4) + hydra(0, 1), {"SLURM_PROCID=3", "PMI_SIZE=1"}},
      {"one by hand under mpirun", own(0, 1) + open_mpi(3, 4), {ours, "OMPI_COMM_WORLD_SIZE=4"}},
      {"one by hand under its rank 0",
       own(0, 1) + open_mpi(0, 4),
       {ours, "OMPI_COMM_WORLD_SIZE=4"}},
      {"one by hand under mpiexec", own(0, 1) + hydra(3, 4), {ours, "PMI_SIZE=4"}},
      {"one by hand in a step", own(0, 1) + step(3, 4), {ours, "SLURM_STEP_NUM_TASKS=4"}},
      {"one by hand under prun", own(0, 1) + prrte(0), {ours, "PMIX_RANK=0"}},
      {"one by hand under torchrun", own(0, 1) + torchrun(1, 2, 0, 1), {ours, "WORLD_SIZE=2"}},
      {"a pod of one, a launcher that we cannot use",
       pod(0, 1) + Entries{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}},
       {"WORLD_SIZE=1", "PMI_SIZE=4"}},
      {"another one",
       pod(0, 1) + Entries{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       {"WORLD_SIZE=1", "OMPI_COMM_WORLD_SIZE=4"}},
  };
  for (const Case& one : cases) {
    const Status status = detect(one.variables).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << one.what;
    for (const std::string& words : one.named)
      EXPECT_NE(status.message().find(words), std::string_view::npos)
          << one.what << ": " << words << " in: " << status.message();
  }
}

TEST(Claims, AWrongValueCountsWhereItIsNeeded) {
  const Entries broken{{"OMPI_COMM_WORLD_RANK", "0"},
                       {"OMPI_COMM_WORLD_SIZE", ""},
                       {"PMIX_NAMESPACE", "job"},
                       {"PMIX_RANK", "0"}};
  EXPECT_EQ(detect(torchrun(1, 2, 0, 1) + broken)->kind, LauncherKind::kTorchrun);
  const Status status = detect(pod(0, 1) + broken).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("OMPI_COMM_WORLD_SIZE="), std::string_view::npos)
      << status.message();
}

TEST(Claims, WhatIsNotBelievedIsKept) {
  const auto launch = detect(own(1, 2) + open_mpi(3, 4));
  EXPECT_EQ(launch->origin, "BANYAN_RANK says rank 1 of 2 (BANYAN_RANK=1, BANYAN_SIZE=2)");
  EXPECT_EQ(launch->overruled,
            "Open MPI says rank 3 of 4 (OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4)");
  EXPECT_EQ(detect(open_mpi(3, 4) + pod(0, 1))->overruled, "");
  EXPECT_EQ(detect(step(1, 2) + hydra(1, 2))->origin,
            "Slurm (PMI) says rank 1 of 2 (PMI_RANK=1, PMI_SIZE=2)");
}

}  // namespace
}  // namespace banyan::launcher_claims_test
