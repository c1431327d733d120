// Every fallible function in this library reports failure by Status and Result<T>.
//
// Nothing here throws. A failure is returned and carries one Code and one sentence with the values
// involved and the remedy. A caller that takes a value where there is none has a bug; the process
// ends there, with that sentence on stderr.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#if __cplusplus < 202002L
#error "The C++ headers of Banyan need C++20 (-std=c++20); banyan/banyan.h serves older programs."
#endif

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace banyan {

// What the caller can do about it, not where it came from. Numerically equal to banyan_result_t.
enum class Code : int {
  kOk = 0,
  kCuda = 1,
  kSystem = 2,           // the operating system or a driver refused; the message has the cause
  kInternal = 3,         // a bug in this library
  kInvalidArgument = 4,  // fix the call
  kInvalidUsage = 5,     // right call, wrong moment
  kRemote = 6,
  kBusy = 7,  // not now; make progress and repeat
  kTimeout = 8,
  kUnsupported = 32,  // this build or machine cannot; the message says what is missing
  kMismatch = 33,     // ranks disagree; the message names the field and two ranks
  kAborted = 34,
  kPeerLost = 35,
  kAccuracy = 36,
  kCorrupt = 37,
};

// ok() or a Code and a message. Copies share the message. Immutable, hence thread-safe.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : rep_(std::make_shared<const Rep>(Rep{code, std::move(message)})) {
    assert(code != Code::kOk);
  }

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : rep_->code; }
  std::string_view message() const { return ok() ? std::string_view() : rep_->message; }

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  // Null means ok, so success costs no allocation. Shared because one asynchronous failure is
  // reported to every operation that was in flight.
  std::shared_ptr<const Rep> rep_;
};

// A T, or a Status that is not ok. `*` and `->` are for a Result that is ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function can `return value;` or `return status;`.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) { assert(!this->status().ok()); }
  // NOLINTEND(google-explicit-constructor)

  bool ok() const noexcept { return std::holds_alternative<T>(state_); }
  Status status() const noexcept {
    const Status* failure = std::get_if<Status>(&state_);
    return failure == nullptr ? Status() : *failure;
  }
  T& operator*() noexcept { return *value_of(*this); }
  const T& operator*() const noexcept { return *value_of(*this); }
  T* operator->() noexcept { return value_of(*this); }
  const T* operator->() const noexcept { return value_of(*this); }

 private:
  template <typename Self>
  static auto* value_of(Self& self) noexcept {
    auto* value = std::get_if<T>(&self.state_);
    if (value == nullptr) self.end_process();
    return value;
  }
  [[noreturn]] void end_process() const noexcept {
    const std::string failure(status().message());
    std::fprintf(stderr, "banyan: a result was taken for a value, and it is a failure: %s\n",
                 failure.c_str());
    std::abort();
  }

  std::variant<T, Status> state_;
};

}  // namespace banyan

// Returns from the enclosing function if the expression is a Status that is not ok.
#define BANYAN_TRY(expression)                                                \
  do {                                                                        \
    if (::banyan::Status banyan_status_ = (expression); !banyan_status_.ok()) \
      return banyan_status_;                                                  \
  } while (false)
