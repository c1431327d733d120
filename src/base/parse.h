// Text to values. Every error says what was given and what would be right.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "banyan/types.h"

namespace banyan {

// "4096", "64K", "1M", "2G" (powers of 1,024), bytes. Rejects signs, fractions and overflow.
Result<uint64_t> parse_size(std::string_view text);
// "4", "64K": the shortest exact form.
std::string format_size(uint64_t bytes);
// "5s", "200ms", "50us", "30" (seconds), "inf"; in seconds. Not negative, not NaN.
Result<double> parse_duration(std::string_view text);
// A decimal integer within [least, most].
Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most);
// "on", "off", "1", "0", "true", "false", "yes", "no".
Result<bool> parse_switch(std::string_view text);

// Names as name_of() gives them, and for types the aliases fp16 bf16 fp32 fp64.
Result<DataType> parse_data_type(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);  // sum prod min max avg
Result<Collective> parse_collective(std::string_view text);

// Views of the text, which has to outlive them: in the head of a range-for a temporary does not.
std::vector<std::string_view> split(std::string_view text, char separator);
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&& text, char separator) = delete;
std::string_view trim(std::string_view text);
// "a, b, c".
std::string join(std::span<const std::string_view> words, std::string_view separator = ", ");
// Texts of peers and users stay one line, whatever is in them, and do not drive a terminal: control
// characters become blanks, bytes that are no UTF-8 question marks. Never longer than the text.
std::string printable(std::string_view text);
// The word with the least edit distance to text; empty if `words` is.
std::string_view nearest(std::string_view text, std::span<const std::string_view> words);
// kInvalidArgument: "WHAT 'text' is unknown; valid: a, b, c".
Status unknown_word(std::string_view what, std::string_view text,
                    std::span<const std::string_view> words);

}  // namespace banyan
