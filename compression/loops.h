// The loops of the kernels apply one function to each element, at any alignment.
//
// Internal linkage on purpose, as in float_formats.h: every instruction set needs its own copy.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstring>

namespace banyan {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Computes dst[i] = function(src[i]), where dst may be src. The loop is there twice, here and
// below, so that compilers see the two cases that exist, the same place and a place apart, and
// vectorise both.
template <typename To, typename From, typename Function>
void map_each(void* dst, const void* src, size_t count, Function function) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  if (sizeof(To) == sizeof(From) && to == from) {
    for (size_t i = 0; i < count; i++) {
      store<To>(to + i * sizeof(To), function(load<From>(to + i * sizeof(From))));
    }
  } else {
    for (size_t i = 0; i < count; i++) {
      store<To>(to + i * sizeof(To), function(load<From>(from + i * sizeof(From))));
    }
  }
}

// dst[i] = function(local[i], incoming[i]), where dst may be local.
template <typename Local, typename Incoming, typename Function>
void combine_each(void* dst, const void* local, const void* incoming, size_t count,
                  Function function) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* left = static_cast<const std::byte*>(local);
  const auto* right = static_cast<const std::byte*>(incoming);
  if (to == left) {
    for (size_t i = 0; i < count; i++) {
      store<Local>(to + i * sizeof(Local), function(load<Local>(to + i * sizeof(Local)),
                                                    load<Incoming>(right + i * sizeof(Incoming))));
    }
  } else {
    for (size_t i = 0; i < count; i++) {
      store<Local>(to + i * sizeof(Local), function(load<Local>(left + i * sizeof(Local)),
                                                    load<Incoming>(right + i * sizeof(Incoming))));
    }
  }
}

struct Sum {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Product {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};

// Dividing by a power of two is multiplying by its reciprocal, to the bit, and many times faster.
inline bool is_power_of_two(int divisor) {
  return (divisor & (divisor - 1)) == 0;
}

}  // namespace
}  // namespace banyan
