// What the system said when it refused something.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>

#include <string_view>
#include <system_error>

#include "banyan/status.h"

namespace banyan {

// `error` is an errno.
inline Status system_error(std::string_view doing, int error) {
  return {Code::kSystem, fmt::format("{}: {}", doing, std::generic_category().message(error))};
}

}  // namespace banyan
