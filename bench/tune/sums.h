// What a sum takes a core of this host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "algorithms/measured_links.h"

namespace banyan::tune {

// Of float32, by the kernels that calls use: the slopes (fit_line()) over vectors of 16 to 64 KiB,
// which a core's cache holds, and of 4 to 8 MiB, which it does not. Takes some tens of
// milliseconds. Nothing where no slope shows.
std::optional<MeasuredSums> measure_sums();

}  // namespace banyan::tune
