// Finds out who this rank is, from the environment of whatever started it: our own variables,
// torchrun, Open MPI (PMIx), MPICH's Hydra (PMI-1), PMIx, Slurm.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/bootstrap/exchange.h"
#include "src/bootstrap/rendezvous.h"

namespace banyan {

enum class LauncherKind { kOwn, kTorchrun, kOpenMpi, kHydra, kPmix, kSlurm };
std::string_view name_of(LauncherKind kind);

// Pure: what the variables say, and where the ranks would meet.
struct Launch {
  LauncherKind kind = LauncherKind::kOwn;
  int rank = 0;
  int size = 1;         // 0: only the process manager knows (PMIx); the exchange of meet() has it
  int local_rank = -1;  // -1: unknown
  // All ranks are known to be on this host, so that they may meet on loopback.
  bool one_host = false;
  // Rank 0 listens at these, and the others try them in turn. Empty: the process manager carries
  // the unique id (PMI, PMIx).
  std::vector<std::string> addresses;  // "HOST:PORT"
  std::string secret;                  // BANYAN_SECRET, or what the launcher gave all ranks alike
  bool secret_is_private = false;
  // For people: who says which rank this is, by which variables, and who says something else.
  std::string origin;
  std::string overruled;
};
// Fails with one of
//
//   kInvalidArgument  names the variable that is wrong, or both launchers where two disagree
//   kInvalidUsage     there is nothing; names BANYAN_RANK and the launchers that were looked for
Result<Launch> detect_launch(const RawEnvironment& raw, const Environment& environment);

// Meets the other ranks. `count` tells this process's calls apart (0, 1, ...); all ranks make the
// same calls.
Result<std::unique_ptr<Exchange>> meet(const Launch& launch, const RawEnvironment& raw,
                                       const Environment& environment, int count,
                                       TimePoint deadline, const Log& log);

// A process manager's own key-value exchange, as far as needed: rank 0's text reaches everybody.
class ProcessManager {
 public:
  virtual ~ProcessManager() = default;
  virtual int size() const = 0;  // of the job
  // Collective; `key` is used once. Plain text of at most 1,024 bytes without blanks or '='.
  virtual Result<std::string> broadcast(std::string_view key, std::string_view value_of_rank_0) = 0;
};
// PMI-1 text lines over PMI_FD, which stays the caller's.
Result<std::unique_ptr<ProcessManager>> open_pmi(int descriptor, int rank, int size,
                                                 TimePoint deadline);
// Through libpmix, opened at run time. kUnsupported names the library that is missing.
Result<std::unique_ptr<ProcessManager>> open_pmix(TimePoint deadline);

}  // namespace banyan
