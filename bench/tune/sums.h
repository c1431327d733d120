// What a sum takes a core of this host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "algorithms/cost/measured_links.h"

namespace banyan::tune {

// Measures sums of float32, by the kernels that calls use: the slope (fit_line()) over vectors of
// 16 to 64 KiB, which a core's own caches hold, and the median of vectors of 4 to 8 MiB, which they
// do not. Takes some tens of milliseconds. Nothing where no slope shows.
std::optional<MeasuredSums> measure_sums();

}  // namespace banyan::tune
