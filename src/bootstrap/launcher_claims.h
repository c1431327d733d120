// Says which launchers are at work, what each says of this process, and whom to believe. Pure.
//
// Variables outlive what set them: a pod has those of its operator, a shell those of the step that
// it runs in, and one launcher may start another one. docs/launch.md has the matrix.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/bootstrap/launcher.h"

namespace banyan {

// A launcher's variables; an empty value is a wrong value there.
class Variables {
 public:
  explicit Variables(const RawEnvironment& raw) : raw_(raw) {}

  bool has(std::string_view name) const { return raw_.find(name) != nullptr; }
  bool set(std::string_view name) const { return !text(name).empty(); }
  std::string text(std::string_view name) const;
  // kInvalidArgument names the variable and what would be right.
  Result<int64_t> number(std::string_view name, int64_t least, int64_t most) const;

 private:
  const RawEnvironment& raw_;
};

// How a launcher's variables are called; empty where it has none.
struct LaunchNames {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank = {};
  std::string_view local_size = {};
};

struct Claim {
  LauncherKind kind = LauncherKind::kOwn;
  LaunchNames names;
  int rank = 0;
  int size = 0;                 // 0: only the process manager knows
  bool usable = true;           // ranks can meet by it; otherwise it only shows a launcher at work
  bool of_slurm = false;        // srun started this process, or the daemon of the launcher that did
  bool spans_launches = false;  // torchrun whose agents know of each other
  Status wrong;                 // of its values; ok: none is

  bool one_rank() const { return wrong.ok() && size == 1; }
  std::string_view name() const {
    return kind == LauncherKind::kHydra && of_slurm ? "Slurm (PMI)" : name_of(kind);
  }
  // "Open MPI says rank 3 of 4 (OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4)"
  std::string text() const;
};

// The most particular one first.
std::vector<Claim> claims_of(const Variables& variables);

struct Belief {
  Claim claim;
  std::string overruled;  // what others say that is not the same, for people
};
// Fails with one of
//
//   kInvalidUsage     there is no launcher
//   kInvalidArgument  two of them disagree, both with their variables, or a value of one is wrong
Result<Belief> whom_to_believe(const std::vector<Claim>& claims);

}  // namespace banyan
