// Structs that the caller fills start with their size: a smaller one is completed with defaults, a
// larger one is accepted where its unknown tail is zero.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

// The number in an enum that a C caller set, which may be none of its enumerators.
template <typename Enum>
int number_in(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

template <typename T>
Result<T> complete_struct(const T* given, const T& defaults, std::string_view name) {
  if (given == nullptr) return defaults;
  const size_t size = given->size;
  if (size < sizeof(size_t))
    return Status(Code::kInvalidArgument,
                  fmt::format("{}.size is {}; set the struct from its initializer", name, size));
  T whole = defaults;
  std::memcpy(&whole, given, size < sizeof(T) ? size : sizeof(T));
  whole.size = sizeof(T);
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  for (size_t at = sizeof(T); at < size; ++at)
    if (bytes[at] != std::byte{0})
      return Status(Code::kUnsupported,
                    fmt::format("{}.size is {}, and byte {} beyond the {} that this version knows "
                                "is not zero",
                                name, size, at, sizeof(T)));
  return whole;
}

}  // namespace banyan
