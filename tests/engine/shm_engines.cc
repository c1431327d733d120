// SPDX-License-Identifier: Apache-2.0

#include "tests/engine/shm_engines.h"

#include <gtest/gtest.h>

namespace banyan::test {

ShmEngines::ShmEngines(int ranks)
    : mesh_(ranks, Mesh::Ranks::kThreads), engines_(static_cast<size_t>(ranks)) {
  run_threads(ranks, [&](MeshWiring& wiring) {
    std::vector<std::unique_ptr<Transport>> transports;
    auto transport = transport_kinds().front().connect(wiring, wiring.others());
    ASSERT_TRUE(transport.ok()) << transport.status().message();
    if (*transport != nullptr) transports.push_back(std::move(*transport));
    std::vector<int> routes(static_cast<size_t>(ranks), 0);
    routes[static_cast<size_t>(wiring.rank())] = -1;
    engines_[static_cast<size_t>(wiring.rank())] =
        std::make_unique<Engine>(std::move(transports), std::move(routes), best_kernels());
  });
}

}  // namespace banyan::test
