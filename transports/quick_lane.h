// Small messages go past the queues for whoever sends and receives them one after another and has
// nothing else under way with that peer in that lane. On the wire they look like all others, so the
// peer need not do the same.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/transport.h"

namespace banyan {

// Both directions to one peer in one lane. Belongs to its transport, and to the same thread.
class QuickLane {
 public:
  // Only with kSent and kTaken something happened. kOther: post the transfer and poll, which deals
  // with everything.
  enum class Departure : uint8_t { kSent, kNoRoom, kOther };
  enum class Arrival : uint8_t { kTaken, kNotThere, kOther };

  // Longer messages are better left to the queues, which need not copy them twice.
  static constexpr uint64_t kBytesMost = 32 << 10;

  virtual ~QuickLane() = default;
  // The longest message that had better leave or come this way. `stream` as in Transfer.
  virtual uint64_t most(Direction direction, bool stream) const = 0;
  virtual Departure send(const std::byte* memory, const Envelope& envelope) = 0;
  virtual Arrival receive(const Transfer& transfer) = 0;
  // Tells whether the peer has taken all that was sent. Whoever cannot wait for that any longer
  // posts the last transfer as `sent`.
  virtual bool delivered() { return true; }
  // Before the next look: brings what has come, where that is work. Whether anything has.
  virtual bool progress() { return false; }
  // While nobody waits: makes the next send sooner, if it is like the last ones.
  virtual void prepare_likely() const {}

 protected:
  QuickLane() = default;
  QuickLane(const QuickLane&) = default;
  QuickLane& operator=(const QuickLane&) = default;
};

}  // namespace banyan
