// Ranks agree on this before anything connects them: settings that must be alike, the number of the
// communicator, and the tuning.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/bootstrap/exchange.h"
#include "src/communicator/cluster.h"
#include "src/communicator/settings.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

struct Agreement {
  uint32_t number = 0;  // of the communicator, as the rank that has made most of them counts
  ClusterWish wish = ClusterWish::kNothing;  // of rank 0
  std::optional<TuningFile> file;            // at the rank that has read one
};

// All ranks take part. It gives the tuning of rank 0 to all, and its rules to their settings. Rank
// 0 reads its BANYAN_TUNE_FILE, unless its settings have a tuning already. kMismatch names a
// setting and two ranks.
Result<Agreement> agree_on_settings(Exchange& exchange, Settings& settings, TimePoint deadline);

// "shm,ucx", of indices into transport_kinds().
std::string transport_list(std::span<const int> kinds);

}  // namespace banyan
