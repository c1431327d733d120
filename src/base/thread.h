// Threads of the library: they take no signals, and one that cannot be had is a status.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>
#include <signal.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "banyan/status.h"

namespace banyan {

// Signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// `what` it does completes "the thread that". kSystem: the system has none to give, or no memory
// for its stack.
template <typename Body>
Result<std::thread> start_thread(std::string_view what, Body body) {
  const SignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Status(Code::kSystem,
                  fmt::format("cannot start the thread that {}: {}", what, error.code().message()));
  }
}

}  // namespace banyan
