// How sparse codecs begin: with a high density, which falls to the one that was asked for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "algorithms/problem.h"

namespace banyan {

// The density of a step, counted from 0: it falls from a quarter to `density` over `warmup_steps`
// and is `density` from then on. Since each new density makes a new schedule, it falls in stairs,
// each half of the one before. There are 20 at most, and all are above `density`. A density of a
// quarter or more has no warm-up.
//
// Deep Gradient Compression (Lin et al., ICLR 2018, section 3.3) warms up like this, by quarters,
// once an epoch.
double density_at(double density, uint64_t step, uint64_t warmup_steps);

// The compression of a step: topk and randk have their density of that step, on each level.
Compression compression_at(const Compression& compression, uint64_t step, uint64_t warmup_steps);

}  // namespace banyan
