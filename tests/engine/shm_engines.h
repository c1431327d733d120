// The ranks of one communicator are in one thread, each with an engine over shared memory: for
// tests and benchmarks that decide themselves who moves when.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <vector>

#include "src/engine/engine.h"
#include "tests/transports/wiring.h"

namespace banyan::test {

class ShmEngines {
 public:
  explicit ShmEngines(int ranks);

  Engine& of(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(engines_.size()); }

 private:
  Mesh mesh_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace banyan::test
