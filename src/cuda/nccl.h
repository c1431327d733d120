// NCCL is a table of functions here, opened at run time, so that it can be absent and any library
// with its ABI may stand for it. Prototypes are ours: nccl.h is not needed to build (NCCL API
// reference, 2.14: the first version whose communicators need not block).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclBytes = 0;  // ncclInt8

struct NcclId {  // ncclUniqueId
  std::array<std::byte, 128> bytes{};
};

// The fields of ncclConfig_t that this version of it has. Later ones take their defaults.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

// Each returns ncclResult_t, unless it says something else.
struct NcclFunctions {
  using Comm = void*;
  using Stream = void*;
  int (*version)(int*) = nullptr;
  int (*new_id)(NcclId*) = nullptr;
  int (*init)(Comm*, int, NcclId, int, NcclConfig*) = nullptr;
  int (*async_error)(Comm, int*) = nullptr;
  int (*abort)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, size_t, int, int, Comm, Stream) = nullptr;
  int (*receive)(void*, size_t, int, int, Comm, Stream) = nullptr;
  const char* (*error_text)(int) = nullptr;
  const char* (*last_error)(Comm) = nullptr;  // null before 2.13
};

// The library of that name or path, by default the one that the process has or its loader finds. It
// stays loaded. kUnsupported: there is none, or it is too old; the text says which one was tried.
Result<NcclFunctions> open_nccl(const std::string& library);

// kCuda: the text names the function and what NCCL says of it.
Status nccl_status(const NcclFunctions& nccl, int result, std::string_view function);

}  // namespace banyan
