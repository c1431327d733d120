// Which launchers are at work, and whom to believe.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/launcher_claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/most_ranks.h"
#include "src/base/parse.h"
#include "src/bootstrap/frame.h"

namespace banyan {
namespace {

// Slurm numbers the batch script itself and other special steps from here on.
constexpr int64_t kSpecialSteps = 0xfffffff0;

Claim claim_of(const Variables& variables, LauncherKind kind, const LaunchNames& names) {
  Claim claim;
  claim.kind = kind;
  claim.names = names;
  int64_t most = kMostRanks;
  if (!names.size.empty()) {
    const auto size = variables.number(names.size, 1, kMostRanks);
    claim.wrong = size.status();
    if (!size.ok()) return claim;
    claim.size = static_cast<int>(*size);
    most = *size;
  }
  const auto rank = variables.number(names.rank, 0, most - 1);
  if (rank.ok()) {
    claim.rank = static_cast<int>(*rank);
  } else if (names.size.empty()) {
    claim.wrong = rank.status();
  } else {
    claim.wrong = {Code::kInvalidArgument,
                   fmt::format("{} ({}={})", rank.status().message(), names.size, claim.size)};
  }
  return claim;
}

bool is_step(const Variables& variables) {
  const bool special = variables.number("SLURM_STEP_ID", kSpecialSteps, INT64_MAX).ok();
  return variables.set("SLURM_PROCID") && variables.set("SLURM_STEP_ID") && !special &&
         (variables.set("SLURM_STEP_NUM_TASKS") || variables.set("SLURM_NTASKS"));
}

// A torchrun that was told of others has agents in several groups. One that was started alone, in
// each task of another launcher, does not know that there are more.
bool has_several_groups(const Variables& variables) {
  const auto groups = variables.number("GROUP_WORLD_SIZE", 1, kMostRanks);
  if (groups.ok()) return *groups > 1;
  const auto size = variables.number("WORLD_SIZE", 1, kMostRanks);
  const auto local_size = variables.number("LOCAL_WORLD_SIZE", 1, kMostRanks);
  return size.ok() && local_size.ok() && *local_size < *size;
}

// Where mpirun has hosts from Slurm, srun starts its daemons, whose step the ranks then see as
// theirs. mpirun itself is number 0 of several servers: "JOB.NUMBER;tcp4://..."
bool has_a_daemon(const Variables& variables) {
  for (const std::string_view name : {"PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2"}) {
    const std::string uri = variables.text(name);
    const size_t end = uri.find(';');
    const size_t dot = uri.rfind('.', end);
    if (end == std::string::npos || dot == std::string::npos) continue;
    return parse_integer(std::string_view(uri).substr(dot + 1, end - dot - 1), 1, INT32_MAX).ok();
  }
  return false;
}

// Whoever does not say how many there are may mean any number but one.
bool same_place(const Claim& a, const Claim& b) {
  const bool open = (a.size == 0 && b.size != 1) || (b.size == 0 && a.size != 1);
  return a.rank == b.rank && (a.size == b.size || open);
}

// mpirun and mpiexec know nothing of each other. Where each rank of mpirun runs an mpiexec, some
// ranks have the same number in both. That is chance: they belong to different jobs.
bool are_strangers(const Claim& a, const Claim& b) {
  const auto starts_alone = [](const Claim& claim) {
    return (claim.kind == LauncherKind::kOpenMpi || claim.kind == LauncherKind::kHydra) &&
           claim.usable && !claim.of_slurm && claim.size > 1;
  };
  return a.kind != b.kind && starts_alone(a) && starts_alone(b);
}

// Two claims of which the first is to be believed.
bool disagree(const Claim& believed, const Claim& other) {
  if (!other.wrong.ok()) return false;
  if (are_strangers(believed, other)) return true;
  if (same_place(believed, other)) return false;
  // Whoever has variables of this library set has meant it, and one rank of several cannot meet
  // nobody: only a job of one would go wrong in silence.
  if (believed.kind == LauncherKind::kOwn) return believed.size == 1 && other.size != 1;
  if (!other.usable) return believed.size == 1;
  // A launcher that is said to be in a step of several tasks may have its daemons there, or be
  // several.
  if (believed.of_slurm && !other.of_slurm && other.size == 1)
    return other.kind != LauncherKind::kTorchrun;
  // It may have started the one that is believed; so may one that does not say how many it has.
  if (other.size == 1 || (other.size == 0 && other.rank == 0)) return false;
  if (other.of_slurm && believed.kind != LauncherKind::kTorchrun) return false;
  return !believed.spans_launches;
}

}  // namespace

std::string Variables::text(std::string_view name) const {
  const std::string* value = raw_.find(name);
  return value != nullptr ? *value : std::string();
}

Result<int64_t> Variables::number(std::string_view name, int64_t least, int64_t most) const {
  const std::string* value = raw_.find(name);
  if (value == nullptr) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is not set; expected a number from {} to {}", name, least, most));
  }
  auto parsed = parse_integer(*value, least, most);
  if (parsed.ok()) return parsed;
  return Status(Code::kInvalidArgument,
                fmt::format("{}={} is not a number from {} to {}", name, *value, least, most));
}

std::string Claim::text() const {
  if (size == 0) return fmt::format("{} says rank {} ({}={})", name(), rank, names.rank, rank);
  return fmt::format("{} says rank {} of {} ({}={}, {}={})", name(), rank, size, names.rank, rank,
                     names.size, size);
}

std::vector<Claim> claims_of(const Variables& variables) {
  std::vector<Claim> claims;
  const auto add = [&](LauncherKind kind, const LaunchNames& names) -> Claim& {
    return claims.emplace_back(claim_of(variables, kind, names));
  };
  const bool has_pmix = variables.set("PMIX_NAMESPACE") && variables.set("PMIX_RANK");
  const bool pmix_of_slurm = has_pmix && variables.text("PMIX_NAMESPACE").rfind("slurm.", 0) == 0;
  const bool open_mpi = variables.set("OMPI_COMM_WORLD_RANK");
  if (variables.set("BANYAN_RANK") || variables.set("BANYAN_SIZE"))
    add(LauncherKind::kOwn, {"BANYAN_RANK", "BANYAN_SIZE", "BANYAN_LOCAL_RANK"});
  if (variables.has("RANK") && variables.has("WORLD_SIZE") && variables.has("MASTER_ADDR"))
    add(LauncherKind::kTorchrun, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
        .spans_launches = has_several_groups(variables);
  if (open_mpi)
    add(LauncherKind::kOpenMpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"})
        .usable = has_pmix && !pmix_of_slurm;
  if (variables.set("PMI_RANK"))
    add(LauncherKind::kHydra, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
        .usable = variables.set("PMI_FD");
  const std::string_view tasks =
      variables.set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const bool sized = pmix_of_slurm && variables.set(tasks);
  if (sized) {
    add(LauncherKind::kPmix, {"PMIX_RANK", tasks, "SLURM_LOCALID"}).of_slurm = true;
  } else if (has_pmix && (pmix_of_slurm || !open_mpi)) {
    add(LauncherKind::kPmix, {"PMIX_RANK", {}}).of_slurm = pmix_of_slurm;
  }
  if (!is_step(variables) || (!pmix_of_slurm && has_a_daemon(variables))) return claims;
  const Claim step =
      claim_of(variables, LauncherKind::kSlurm, {"SLURM_PROCID", tasks, "SLURM_LOCALID"});
  for (Claim& claim : claims)  // srun may offer PMI, too
    if (claim.kind == LauncherKind::kHydra && claim.size == step.size && same_place(claim, step))
      claim.of_slurm = true;
  claims.push_back(step);
  claims.back().of_slurm = true;
  return claims;
}

Result<Belief> whom_to_believe(const std::vector<Claim>& claims) {
  const auto usable = [](const Claim& claim) { return claim.usable; };
  auto chosen = std::find_if(claims.begin(), claims.end(), usable);
  if (chosen == claims.end()) {
    return Status(
        Code::kInvalidUsage,
        "nothing says which rank this process is: start it with mpirun, mpiexec, srun or torchrun, "
        "or set BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS (looked for: BANYAN_RANK; RANK, "
        "WORLD_SIZE and MASTER_ADDR; OMPI_COMM_WORLD_RANK; PMI_RANK and PMI_FD; PMIX_RANK; "
        "SLURM_PROCID in a step)");
  }
  // One rank is what an outer launcher says of what starts the ranks, or a stale variable.
  if (chosen->kind != LauncherKind::kOwn && chosen->one_rank()) {
    const auto several = std::find_if(
        chosen, claims.end(), [](const Claim& claim) { return claim.usable && !claim.one_rank(); });
    if (several != claims.end()) chosen = several;
  }
  BANYAN_TRY(chosen->wrong);
  Belief belief{.claim = *chosen, .overruled = {}};
  for (const Claim& other : claims) {
    if (disagree(*chosen, other)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("two launchers disagree on which rank this process is: {}, {}; "
                                "unset the variables of the one that did not start it, or set "
                                "BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS",
                                chosen->text(), other.text()));
    }
    if (!other.wrong.ok() || other.size == 1 || same_place(*chosen, other)) continue;
    belief.overruled += fmt::format("{}{}", belief.overruled.empty() ? "" : ", ", other.text());
  }
  return belief;
}

}  // namespace banyan
