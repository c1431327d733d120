// Tests that run over every transport, with ranks of either kind.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string_view>

#include "tests/ranks/ranks.h"
#include "tests/support/sanitizers.h"
#include "transports/transport.h"

namespace banyan::test {

struct Where {
  Kind kind;
  std::string_view transport;
};

inline std::ostream& operator<<(std::ostream& out, const Where& where) {
  return out << where.kind << "_" << where.transport;
}

inline auto everywhere() {
  return testing::Values(Where{Kind::kThreads, "loopback"}, Where{Kind::kThreads, "shm"},
                         Where{Kind::kProcesses, "shm"}, Where{Kind::kProcesses, "ucx"});
}

class OverTransports : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer && GetParam().kind == Kind::kProcesses && GetParam().transport == "ucx")
      GTEST_SKIP() << "UCX dies in a child of fork() under the thread sanitizer";
    for (const TransportKind& kind : transport_kinds())
      if (kind.name == GetParam().transport && !kind.missing().empty())
        GTEST_SKIP() << kind.missing();
  }
};

}  // namespace banyan::test
