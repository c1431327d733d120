// By which codecs sums travel, level by level, as BANYAN_COMPRESS says it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/choice/codec_times.h"
#include "algorithms/choice/select.h"
#include "algorithms/problem.h"
#include "banyan/status.h"
#include "src/base/codec.h"

namespace banyan {

// Reads CODEC or 'inter=' CODEC ',' 'intra=' CODEC, either of the two alone, too; a CODEC is as
// compression/grammar.h has it, or 'auto'. A CODEC alone is that of the only level, or between
// hosts where there are several.
//
//   kInvalidArgument  names the word, its position and what would be valid
Result<Compression> parse_compression(std::string_view text);

// Any codec of those for hosts, or any at all where that is automatic, that keeps a bound on the
// error from end to end; none where that is exact.
Compression within_bound(const Compression& codecs, bool relative, double bound);

// The codecs of a call's levels, in otherwise empty parameters; none where it must be exact. Where
// one is automatic it still is. Sums in rank order may not depend on where the hosts are: they go
// by the codec that is alike between hosts and on one, or by none.
Parameters codecs_for(const Problem& problem, int ranks, Medium medium, const Hierarchy* hierarchy);
// Whether all that `asked` would lose is what `ceiling` would lose, too.
bool keeps_within(const Compression& asked, const Compression& ceiling);
// "int8", "inter=int8,intra=off", "off".
std::string text_of(const Compression& compression);

// What the choice becomes where sums travel by these codecs, of which none is automatic. An
// algorithm that can do that goes on with its parameters; in place of another comes hierarchical
// where there are levels, else direct.
Choice encoded(Choice choice, const Parameters& codecs, Collective collective,
               const Hierarchy* hierarchy);

// What the choice for exact sums becomes by what the call accepts. Where a level is automatic, it
// gets the codec, or none, with which the call takes least. Another that loses more must promise to
// take clearly less, and the reason says what was measured or predicted. The same on all ranks, as
// choose() is.
//
//   times of such calls by codecs     they decide
//   measured links                    predictions decide, but what an exact call was measured to
//   (measured_choice.h; null: none)   take where that is less than is predicted
//   neither, or sums that are to be   an automatic level is exact
//   the same whatever links there are
Choice with_codecs(const Problem& problem, int ranks, Medium medium, const Hierarchy* hierarchy,
                   const MeasuredNetwork* measured, Choice exact,
                   std::span<const CodecTime> times = {});

}  // namespace banyan
