// Ranks with a GPU each, which they may share.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "tests/ranks/device_memory.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test {

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WithGpus : public WithRanks {
 protected:
  static void run_on_gpus(int size, const std::function<void(Rank&, banyan_comm_t, RankGpu&)>& body,
                          JobOptions options = {.limit_s = 60}) {
    run_joined(
        size,
        [&](Rank& self, banyan_comm_t comm) {
          RankGpu gpu(self);
          if (gpu.works()) body(self, comm, gpu);
        },
        std::move(options));
  }
  // The communicator fails in the body. Nothing, where no driver can be told to.
  void run_to_failure(int size, const std::function<void(Rank&, banyan_comm_t, RankGpu&)>& body) {
    run(size, [&](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.timeout_s = 10 * time_factor();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      RankGpu gpu(self);
      if (!gpu.works()) return;
      if (!gpu.has_faults()) return self.leave(comm);
      body(self, comm, gpu);
      banyan_comm_destroy(comm);
    });
  }
};

}  // namespace banyan::test
