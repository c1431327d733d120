// Results of the C interface become exceptions: banyan.Error and its subclasses.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "banyan/banyan.h"

namespace banyan::python {

// What this thread's last call on comm, or on none, has failed with.
struct Failed {
  banyan_result_t result = BANYAN_SUCCESS;
  std::string text;
  int failed_rank = -1;  // -1: nobody, or nobody can be named
};
Failed failure_of(banyan_result_t result, banyan_comm_t comm);

// The caller has the GIL.
[[noreturn]] void raise(const Failed& failed);

// Throws unless it was a success. The caller is the thread that made the call, and has the GIL.
inline void check(banyan_result_t result, banyan_comm_t comm = nullptr) {
  if (result != BANYAN_SUCCESS) raise(failure_of(result, comm));
}

}  // namespace banyan::python
