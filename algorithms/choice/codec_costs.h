// What codecs cost and lose: for choices by predicted times, and for explanations.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>

#include "algorithms/cost/cost.h"
#include "algorithms/cost/measured_links.h"
#include "src/base/codec.h"

namespace banyan {

// Those that `auto` may take, beginning with the one that loses least.
std::span<const CodecChoice> automatic_codecs();

// Whatever codec keeps a bound: data decide which one.
bool is_bound(const CodecChoice& choice);
// It sends some values only, so how long its messages are may be for the data to say.
bool is_sparse(const CodecChoice& choice);
// It sends the values from T on: this share of them is assumed.
bool depends_on_data(const CodecChoice& choice);
inline constexpr double kAssumedShare = 0.01;

// Gives what a sum of so many members costs by that codec, which is one of codecs(). Of the sparse
// ones, each member keeps other values than the rest. `speeds`: what of them was measured.
CodecCost cost_of(const CodecChoice& choice, int members, std::span<const MeasuredCodec> speeds);

// The share of the power that one encoding of normal data loses; 0: there is none to name.
double loss_of(const CodecChoice& choice);
// How far a sum is from the exact one: "2 c, c = 4.9e-05", "all but 0.01 of the values".
std::string law_of(const CodecChoice& choice, Collective collective);

}  // namespace banyan
