// A call that was checked, with its addresses: what the door hands on.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "algorithms/parameters.h"
#include "algorithms/problem.h"
#include "src/engine/execution.h"

namespace banyan {

struct Call {
  Problem problem;
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t send_bytes = 0;  // of the range that is read or written; 0 for lists of blocks
  uint64_t recv_bytes = 0;
  std::array<std::byte, 8> scalar{};  // of kPreMulSum
  double timeout_s = 0;               // 0: the communicator's
  Parameters parameters{};            // with which the call wants that algorithm:
  int algorithm = -1;                 // -1: it wants none
  // The left_count elements of the schedule, which are written; null: the problem keeps none.
  std::byte* left = nullptr;
  const Chance* chance = nullptr;  // outlives the call; null: codecs go by the call's number
  StartGate* gate = nullptr;       // it begins when that opens; null: at once
  Hook* hook = nullptr;            // hears of its end, perhaps as it starts; null: nobody does
};

// Where kOutput begins: for reductions and scatters in place, the whole buffer is the send buffer.
inline bool output_in_send(const Problem& problem) {
  const Collective collective = problem.collective;
  return problem.in_place &&
         (collective == Collective::kReduceScatter || collective == Collective::kReduceScatterv ||
          collective == Collective::kScatter);
}

// A call that is known has its addresses alone: the problem is its plan's.
inline void* output_of(const Problem& problem, const Call& call) {
  return output_in_send(problem) ? const_cast<void*>(call.send) : call.recv;
}

}  // namespace banyan
