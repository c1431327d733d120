// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/rules.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "algorithms/choice/compression.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr uint64_t kLeastCount = 4096;  // shorter tensors stay exact where nobody says otherwise

template <typename... Values>
Status wrong(fmt::format_string<Values...> text, Values&&... values) {
  return {Code::kInvalidArgument, fmt::format(text, std::forward<Values>(values)...)};
}

// A word of a text, by the character where it begins.
struct Word {
  size_t position;
  std::string_view text;
};

Word trimmed(size_t position, std::string_view text) {
  const std::string_view word = trim(text);
  return {position + (word.empty() ? 0 : static_cast<size_t>(word.data() - text.data())), word};
}

Result<TensorRule> parse_rule(const Word& rule) {
  constexpr std::string_view kForm = "valid: GLOB=COMPRESSION, and ';' between two of them";
  const size_t equals = rule.text.find('=');
  if (equals == std::string_view::npos)
    return wrong("rules, character {}: '{}' has no '='; {}", rule.position, printable(rule.text),
                 kForm);
  const std::string_view glob = trim(rule.text.substr(0, equals));
  if (glob.empty())
    return wrong("rules, character {}: '{}' has no glob before '='; {}", rule.position,
                 printable(rule.text), kForm);
  const Word codec = trimmed(rule.position + equals + 1, rule.text.substr(equals + 1));
  const Result<Compression> compression = parse_compression(codec.text);
  if (!compression.ok())
    return wrong("rules, character {}: '{}': {}", codec.position, printable(codec.text),
                 compression.status().message());
  return TensorRule{std::string(glob), *compression};
}

const TensorRule* first_match(std::span<const TensorRule> rules, const std::string& name) {
  const auto matches = [&](const TensorRule& rule) {
    return fnmatch(rule.glob.c_str(), name.c_str(), 0) == 0;
  };
  const auto found = std::find_if(rules.begin(), rules.end(), matches);
  return found == rules.end() ? nullptr : &*found;
}

std::string accepted_text(const Compression& compression) {
  return compression.is_exact() ? "exact" : text_of(compression);
}

Compression with_codecs_of(const TensorRule& rule, const Compression& rest) {
  Compression compression = rule.compression;
  compression.least_bytes = rest.least_bytes;
  compression.seed = rest.seed;
  return compression;
}

}  // namespace

Result<std::vector<TensorRule>> parse_tensor_rules(std::string_view text) {
  std::vector<TensorRule> rules;
  for (const std::string_view part : split(text, ';')) {
    const Word word = trimmed(static_cast<size_t>(part.data() - text.data()) + 1, part);
    if (word.text.empty()) continue;
    Result<TensorRule> rule = parse_rule(word);
    BANYAN_TRY(rule.status());
    rules.push_back(std::move(*rule));
  }
  return rules;
}

Result<Compression> compression_of(const Tensor& tensor, const std::optional<Compression>& own,
                                   std::span<const TensorRule> rules, const Settings& settings) {
  const TensorRule* rule = own ? nullptr : first_match(rules, tensor.name);
  const Compression& communicators = settings.compression;
  Compression asked;
  if (own)
    asked = *own;
  else if (rule != nullptr)
    asked = with_codecs_of(*rule, communicators);
  else if (tensor.dimensions != 1 && tensor.count >= kLeastCount)
    asked = communicators;

  const std::string asks =
      fmt::format("tensor '{}' asks for compression '{}'{}", printable(tensor.name), text_of(asked),
                  rule == nullptr ? "" : fmt::format(" by rule '{}'", printable(rule->glob)));
  Problem sum;
  sum.type = tensor.type;
  const bool encodable = may_encode(sum);
  if (own && !asked.is_exact() && !encodable)
    return wrong("{}, and its type is {}; valid: exact, or float32, float16 or bfloat16", asks,
                 name_of(tensor.type));
  if (settings.has_ceiling && !keeps_within(asked, communicators))
    return wrong("{}, and the communicator accepts '{}' at most", asks,
                 accepted_text(communicators));
  const bool is_short = tensor.count * sizeof(float) < asked.least_bytes;
  if (asked.is_exact() || !encodable || is_short) return Compression();
  return asked;
}

}  // namespace banyan
