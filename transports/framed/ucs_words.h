// What UCX says of errors, in our log instead of on stderr.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "src/base/log.h"

namespace banyan {

// Functions of UCX's, by which it passes on what it says; null where it has none.
struct UcsLog {
  void* push_handler = nullptr;
  void* pop_handler = nullptr;

  static UcsLog find_in(void* library);
};

// While it lives, what UCX says of errors in this thread goes to our log: it gives advice that is
// not of what went wrong, in a form of its own, and the rank that connects says what matters.
// UCX has one list of handlers for the process, without a lock.
class UcsWords {
 public:
  UcsWords(const UcsLog& ucs, const Log& log);
  UcsWords(const UcsWords&) = delete;
  UcsWords& operator=(const UcsWords&) = delete;
  ~UcsWords();

 private:
  const UcsLog ucs_;
};

}  // namespace banyan
