// How fast a core of this host is by codecs.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <vector>

#include "algorithms/cost/measured_links.h"
#include "src/base/codec.h"

namespace banyan {

// Measures them on vectors of 64 KiB, by the kernels that calls use: the best of a few times each,
// which takes some hundred microseconds for three of them. Where a codec keeps what is large, that
// is as many values as explanations assume.
std::vector<MeasuredCodec> measure_codecs(std::span<const CodecChoice> choices);

// Gives what is known of links between hosts the codecs that `auto` chooses from, where it has
// none.
void complete(MeasuredLinks& links);

}  // namespace banyan
