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
// The share of the power that sums of normal data lose by the codecs of a call, whose hierarchy has
// so many levels below the top. 0: none, or there is none to name.
//
//   encoded                                     loses
//   contributions, on every level               c of its codec
//   sums of an allreduce, at the top            c of its codec
//   the same inside, by another codec           c of its codec once, on however many levels
//   the same inside, by the same codec          nothing, as they are what it decoded
//
// So an allreduce on hosts loses 2 c between them alone, 3 c by the same codec inside, 2 c + 2 c'
// by another one. There is none to name where e4m3 is inside of e5m2, or the other way around: many
// numbers are in both.
double loss_of(const Parameters& codecs, Collective collective, int inside);
// How far a sum is from the exact one: "2 c, c = 4.9e-05", "2 c + 2 c' = 1.9e-02", "all but 0.01 of
// the values".
std::string law_of(const Parameters& codecs, Collective collective, int inside);

}  // namespace banyan
