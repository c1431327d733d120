// By which compression each tensor travels: its own setting, the first rule that matches its name,
// or what the communicator says.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/problem.h"
#include "banyan/status.h"
#include "src/communicator/settings.h"
#include "src/reducer/tensor.h"

namespace banyan {

struct TensorRule {
  std::string glob;           // for fnmatch(3)
  Compression compression{};  // its codecs only; the rest is the communicator's
};

// Reads GLOB=COMPRESSION;GLOB=COMPRESSION, where a COMPRESSION is as parse_compression() has it.
// Blanks around words and empty rules are fine.
//
//   kInvalidArgument  names the character, counted from 1, and what would be valid there
Result<std::vector<TensorRule>> parse_tensor_rules(std::string_view text);

// The compression of one tensor, whose field of that name does not count. The first line that holds
// says what is asked for:
//
//   it has a setting of its own                     that, with its own least bytes and seed
//   a rule matches its name                         the rule's
//   it has one dimension, or below 4,096 elements   exact
//   otherwise                                       the communicator's
//
// A tensor is exact, too, if no codec takes its type, or if as float32 it is shorter than the least
// bytes.
//
//   kInvalidArgument  the setting or the rule asks for more than the communicator accepts, or the
//                     setting for a codec on a type that none takes; the text names the tensor
Result<Compression> compression_of(const Tensor& tensor, const std::optional<Compression>& own,
                                   std::span<const TensorRule> rules, const Settings& settings);

}  // namespace banyan
