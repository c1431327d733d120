// A call that was made before runs as a program, past the queues of the engine.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "banyan/status.h"
#include "src/base/float_mode.h"
#include "src/communicator/membership.h"
#include "src/engine/program.h"

namespace banyan {

// A call that was made before and fits a program: only its addresses are new.
struct QuickCall {
  std::shared_ptr<Plan> plan;
  Program program;
  std::unique_ptr<Operation> operation;  // for the engine, where the program cannot go on
  uint32_t& next_number;                 // of its kind of call
  bool output_in_send = false;
};

inline void Worker::begin(QuickCall& quick, const void* send, void* recv, bool more) {
  std::byte* output =
      static_cast<std::byte*>(quick.output_in_send ? const_cast<void*>(send) : recv);
  quick.program.begin(
      {static_cast<const std::byte*>(send), output, quick_scratch_.data()->bytes.data()},
      quick.next_number++, more);
}

// Runs the program of a call that was begun, as long as the wait for messages is short. False:
// go_on(), which ends the call as drive() does.
bool run_patiently(Driver& driver, QuickCall& quick, Program::Stop stop);
inline bool run_through(Driver& driver, QuickCall& quick) {
  const DefaultFloatMode mode;
  const Program::Stop stop = quick.program.run();
  return stop == Program::Stop::kDone || run_patiently(driver, quick, stop);
}
Status go_on(Driver& driver, QuickCall& quick);

}  // namespace banyan
