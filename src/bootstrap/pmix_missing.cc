// A build without the headers of PMIx.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/launcher.h"

namespace banyan {

Result<std::unique_ptr<ProcessManager>> open_pmix(TimePoint /*deadline*/) {
  return Status(Code::kUnsupported,
                "this process was started through PMIx (Open MPI or Slurm), which this build of "
                "the library knows nothing of: build it with libpmix-dev installed, or set "
                "BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS");
}

}  // namespace banyan
