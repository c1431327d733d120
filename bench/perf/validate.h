// Whether a call gives what it should.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

#include "banyan/status.h"
#include "bench/perf/work.h"

namespace banyan::perf {

// Makes one call from known inputs; all ranks take part. It counts the wrong elements on all ranks;
// the first few are printed by the rank that finds them. `right` is the digest of this rank's
// output once it was found right: the same bits need no second check.
Result<uint64_t> validate(const Work& work, std::optional<uint64_t>& right);

}  // namespace banyan::perf
