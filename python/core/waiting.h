// A call that may wait: without the GIL, and so that Ctrl-C ends it.
//
// Python runs handlers of signals in the main thread only, which is in the library while it waits.
// So a handler that Python has for SIGINT is preceded by one of ours, and that wakes a thread which
// aborts what the main thread waits for. It does so only where the handler is the default one, of
// which it is known that it raises KeyboardInterrupt: other handlers run when the call has ended.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>

#include "banyan/banyan.h"

namespace banyan::python {

// Communicators that a thread waits for. Where it is the main thread, Ctrl-C aborts them.
class Interruptible {
 public:
  Interruptible(const banyan_comm_t* comms, size_t count);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  friend void abort_what_waits();

  const banyan_comm_t* comms_;
  size_t count_;
  bool shown_;
  std::atomic<bool> left_{false};
};

// A thread that Python leaves behind when it ends never has the GIL again: Python up to 3.13 ends
// a thread that asks for it, amidst functions of C++ that nothing may leave so, and with it the
// process. Such a thread stays.
void take_gil_back(PyThreadState* state) noexcept;

// Until it ends, other threads of Python run.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { take_gil_back(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Runs a call of the C interface on comm, and returns its result.
template <typename Call>
banyan_result_t wait_for(banyan_comm_t comm, Call&& call) {
  const Interruptible interruptible(&comm, 1);
  const WithoutGil released;
  return call();
}

// Puts our handler before that of Python, if that is the default one, once more where somebody has
// replaced it. To be called by the main thread with the GIL; others do nothing.
void watch_for_interrupts();
// As watch_for_interrupts has found it.
bool on_main_thread();

}  // namespace banyan::python
