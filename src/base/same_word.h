// Words of users, who write names as they like: `Ring`, `ALLREDUCE`.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <string_view>

namespace banyan {

constexpr char lower_case(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// Equal but for the case of ASCII letters.
constexpr bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char one, char other) { return lower_case(one) == lower_case(other); });
}

}  // namespace banyan
