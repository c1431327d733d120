// Names of the grammar, one for each way in which a codec encodes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::test {

inline std::vector<std::string_view> codec_names() {
  return {"fp16",          "bf16",
          "int8",          "int8+sr",
          "int4",          "int4+sr",
          "dyn8",          "e4m3",
          "e4m3+sr",       "e5m2",
          "e5m2+sr",       "onebit",
          "threshold:0.5", "threshold:0.5:fp16",
          "sign:0.5",      "topk:0.01",
          "topk:1",        "topk:0.25:fp16",
          "randk:0.1",     "randk:0.25:fp16"};
}

// As the name of a test case.
inline std::string as_identifier(std::string_view name) {
  std::string word(name);
  std::replace_if(
      word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return word;
}

}  // namespace banyan::test
