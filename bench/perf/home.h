// Where the buffers of a benchmark lie.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string_view>

namespace banyan::perf {

enum class Home : uint8_t { kHost, kShared, kDevice, kManaged };  // kShared: of banyan_mem_alloc

// By the words of -d; empty: they lie on no device.
constexpr std::string_view device_of(Home home) {
  switch (home) {
    case Home::kHost:
    case Home::kShared: return "";
    case Home::kDevice: return "cuda";
    case Home::kManaged: return "managed";
  }
  return "";
}

}  // namespace banyan::perf
