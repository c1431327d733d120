// Tells what `trace` says of calls: each of them, the way of each of its messages, each sleep.
//
// Where it is on, all calls go by the engine, and all messages by the queues of their transports:
// what is faster than these tells nobody what it does, and costs nothing for that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "transports/transport.h"

namespace banyan {

struct Operation;
struct Problem;

class Trace {
 public:
  // Calls and sleeps are of the subsystem `call`, messages of `net`.
  explicit Trace(const Log& log)
      : log_(log),
        calls_(log.enabled(Subsystem::kCall, LogLevel::kTrace)),
        messages_(log.enabled(Subsystem::kNet, LogLevel::kTrace)) {}

  // Whether anything is traced, now or when it is not muted any more.
  bool on() const { return calls_ || messages_; }
  bool calls() const { return calls_ && !muted_; }
  bool messages() const { return messages_ && !muted_; }
  void mute(bool muted) { muted_ = muted; }

  // Tell that an operation is launched, or comes to its end. Require calls(). A line that there is
  // no memory for is left out.
  void begins(Operation& operation, uint32_t number) const noexcept;
  void ends(const Operation& operation) const noexcept;
  // A message to oneself, of which there is no operation.
  void copied(const Problem& receive) const noexcept;
  // The rank waited for that one; -1: it cannot say. `waker` is what ended the sleep.
  void slept(TimePoint since, int peer, std::string_view waker) const noexcept;
  // Requires messages(). The transfer is done.
  void moved(const Transfer& transfer, std::string_view transport, Passage passage) const noexcept;

 private:
  template <typename Make>
  void tell(Subsystem subsystem, const Make& make) const noexcept;

  const Log& log_;
  bool calls_;
  bool messages_;
  bool muted_ = false;
};

}  // namespace banyan
