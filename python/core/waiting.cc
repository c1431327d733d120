// SPDX-License-Identifier: Apache-2.0

#include "python/core/waiting.h"

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace py = pybind11;

namespace banyan::python {
namespace {

// A process has one handler for a signal, and one main thread: so has this file one of each.
constinit std::atomic<Interruptible*> waiting{nullptr};
constinit std::atomic<pid_t> watched_process{0};
constinit thread_local bool is_main_thread = false;
struct sigaction former {};
sem_t interrupted;

// It may do only what is safe in a handler.
void on_interrupt(int signal) {
  const int error = errno;
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) former.sa_handler(signal);
  if (waiting.load() != nullptr) sem_post(&interrupted);
  errno = error;
}

bool in_main_thread() {
  const py::module_ threading = py::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

bool raises_keyboard_interrupt() {
  const py::module_ signals = py::module_::import("signal");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
}

}  // namespace

// What waits is taken out of `waiting` while it is aborted, so that its thread does not leave
// meanwhile.
void abort_what_waits() {
  Interruptible* what = waiting.exchange(nullptr);
  if (what == nullptr) return;
  for (size_t i = 0; i < what->count_; ++i) (void)banyan_comm_abort(what->comms_[i]);
  what->left_.store(true);
}

Interruptible::Interruptible(const banyan_comm_t* comms, size_t count)
    : comms_(comms), count_(count), shown_(is_main_thread && count != 0) {
  if (shown_) waiting.store(this);
}

Interruptible::~Interruptible() {
  if (!shown_ || waiting.exchange(nullptr) == this) return;
  while (!left_.load()) std::this_thread::yield();
}

void take_gil_back(PyThreadState* state) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  const bool finalizing = Py_IsFinalizing() != 0;
#else
  const bool finalizing = _Py_IsFinalizing() != 0;
#endif
  while (finalizing && !is_main_thread) pause();
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {  // it began to end meanwhile
    for (;;) pause();
  }
}

bool on_main_thread() {
  return is_main_thread;
}

void watch_for_interrupts() {
  is_main_thread = in_main_thread();
  if (!is_main_thread || !raises_keyboard_interrupt()) return;
  struct sigaction present {};
  if (sigaction(SIGINT, nullptr, &present) != 0) return;
  if (present.sa_handler != on_interrupt) {
    if ((present.sa_flags & SA_SIGINFO) != 0) return;  // somebody else has done as we do
    former = present;
    present.sa_handler = on_interrupt;
    if (watched_process.load() == 0 && sem_init(&interrupted, 0, 0) != 0) return;
    if (sigaction(SIGINT, &present, nullptr) != 0) return;
  }
  if (watched_process.exchange(getpid()) == getpid()) return;
  // A child of fork() has the handler, and not the thread.
  std::thread([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;;)
      if (sem_wait(&interrupted) == 0) abort_what_waits();
  }).detach();
}

}  // namespace banyan::python
