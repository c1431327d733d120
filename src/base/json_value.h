// A JSON text as a tree that knows the line of every value, for messages about what is wrong in it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"

namespace banyan {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int line = 1;  // on which it begins
  double number = 0;
  std::string key{};   // where it is a member of an object
  std::string text{};  // of a string
  std::vector<JsonValue> children{};

  // The member of that key; null: none.
  const JsonValue* find(std::string_view member) const;
};

struct JsonLimits {
  int depth = 16;
  size_t values = size_t{1} << 24;
};

// Fails with kInvalidArgument "line N: ..." for what is no JSON, for what is beyond the limits, and
// for an object with two members of one key.
Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits);

// "an array", for messages.
std::string_view name_of(JsonValue::Kind kind);
// Quoted and escaped; what is no UTF-8 is replaced.
std::string json_string(std::string_view text);

}  // namespace banyan
