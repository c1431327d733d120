// Codes that come from elsewhere as numbers.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <limits>

#include "banyan/status.h"

namespace banyan {

// The number is a Code, and that of a failure: neither kOk nor kBusy, which is an answer for now.
constexpr bool is_failure_code(uint64_t number) {
  if (number > static_cast<uint64_t>(std::numeric_limits<int>::max())) return false;
  switch (static_cast<Code>(number)) {  // without a default, so that no new one is forgotten
    case Code::kOk:
    case Code::kBusy: return false;
    case Code::kCuda:
    case Code::kSystem:
    case Code::kInternal:
    case Code::kInvalidArgument:
    case Code::kInvalidUsage:
    case Code::kRemote:
    case Code::kTimeout:
    case Code::kUnsupported:
    case Code::kMismatch:
    case Code::kAborted:
    case Code::kPeerLost:
    case Code::kAccuracy:
    case Code::kCorrupt: return true;
  }
  return false;
}

}  // namespace banyan
