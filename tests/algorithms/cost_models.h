// Machines and calls for the tests of what algorithms cost.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/cost/cost.h"

namespace banyan {

inline Figure table(double value) {
  return {value, Source::kTable};
}

// Latency and bytes only: a byte takes the receiver, or a wire.
inline CostModel pure(double alpha, double byte_inside, double byte_on_wire) {
  CostModel model;
  model.within.alpha = model.between.alpha = table(alpha);
  model.within.recv_byte = model.within.long_byte = table(byte_inside);
  model.wire_byte = table(byte_on_wire);
  return model;
}

inline Problem call(Collective collective, uint64_t bytes, int ranks,
                    DataType type = DataType::kFloat32) {
  return equal_blocks(collective, type, bytes / size_of(type), ranks);
}

inline std::vector<Collective> collectives() {
  std::vector<Collective> all;
  for (int i = 0; i < kCollectiveCount; ++i)
    if (!is_message(static_cast<Collective>(i))) all.push_back(static_cast<Collective>(i));
  return all;
}

}  // namespace banyan
