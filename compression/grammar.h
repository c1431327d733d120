// The name of one codec: "int8", "int4+sr", "topk:0.01:fp16".
//
//   NAME       OFF | PLAIN | ROUNDED [ '+sr' ] | NUMBERED
//   OFF        'off' | 'exact'
//   PLAIN      'fp16' | 'bf16' | 'dyn8' | 'onebit'
//   ROUNDED    'int8' | 'int4' | 'e4m3' | 'fp8', which is e4m3 | 'e5m2'
//   NUMBERED   'threshold:' T [ ':fp16' ] | 'sign:' T
//              | 'topk:' D { ':fp16' | ':resel' } | 'randk:' D [ ':fp16' ]
//   T          a number above 0; of sign, one that float32 holds
//   D          a number above 0 and at most 1
//
// A number is decimal, with or without an exponent, and has no sign. No suffix comes twice. Levels
// ("inter=") and 'auto' are no part of a name.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "banyan/status.h"
#include "banyan/types.h"
#include "src/base/codec.h"

namespace banyan {

// kInvalidArgument: names what is wrong, the character where it begins, counted from 1, and the
// words that are valid there.
Result<CodecChoice> parse_codec(std::string_view name);

// The one text for a choice that parse_codec() gives: numbers are the shortest that read back. For
// a bound, which has no name, "absolute:0.01" or "relative:0.01".
std::string text_of(const CodecChoice& choice);

// Whether parse_codec() gives it.
bool is_choice(const CodecChoice& choice);

// What a codec goes by for values of that type. Seed, step and places are the caller's to set.
Coding coding_of(const CodecChoice& choice, DataType values);

}  // namespace banyan
