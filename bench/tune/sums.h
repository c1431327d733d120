// What a sum takes a core of this host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "algorithms/measured_links.h"

namespace banyan::tune {

// Of float32, by the kernels that calls use: vectors of 64 KiB, which a core's cache holds, and of
// 4 MiB, which it does not. Takes some milliseconds.
MeasuredSums measure_sums();

}  // namespace banyan::tune
