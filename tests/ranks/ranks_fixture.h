// Tests that run with ranks of either kind.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <utility>

#include "src/base/descriptor.h"
#include "tests/ranks/ranks.h"
#include "tests/support/few_descriptors.h"

namespace banyan::test {

class WithRanks : public testing::TestWithParam<Kind> {
 protected:
  static void run(int size, const Job::Body& body, JobOptions options = {}) {
    run_ranks(GetParam(), size, body, std::move(options));
  }

  // On a communicator of all ranks, which is left in good order afterwards.
  static void run_joined(int size, const std::function<void(Rank&, banyan_comm_t)>& body,
                         JobOptions options = {}) {
    run(
        size,
        [&](Rank& self) {
          banyan_config_t config = BANYAN_CONFIG_INIT;
          config.timeout_s = 10 * time_factor();
          banyan_comm_t comm = self.join(&config);
          if (comm == nullptr) return;
          self.where("the body of the test");
          body(self, comm);
          self.leave(comm);
        },
        std::move(options));
  }
};

inline double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A rank that calls nothing learns of a failure by asking.
inline banyan_result_t wait_for_error(Rank& self, banyan_comm_t comm) {
  banyan_result_t error = BANYAN_SUCCESS;
  self.wait_until([&] {
    self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
    return error != BANYAN_SUCCESS;
  });
  return error;
}

inline auto both_kinds() {
  return testing::Values(Kind::kThreads, Kind::kProcesses);
}

// A call as a value, from its defaults.
template <typename Change>
banyan_call_t call_of(const Change& change) {
  banyan_call_t call = BANYAN_CALL_INIT;
  change(call);
  return call;
}

}  // namespace banyan::test
