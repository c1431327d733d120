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
  // Whether this message had better leave or come this way. Its memory does not matter. A receive
  // up to a length had better not: nobody would say how long the message was.
  virtual bool takes(const Transfer& transfer) const = 0;
  virtual Departure send(const std::byte* memory, const Envelope& envelope) = 0;
  virtual Arrival receive(const Transfer& transfer) = 0;
  // Lets the peer know that what was received is taken, which in the message lane it may wait for.
  // To be called after the last of several, before anything else is waited for.
  virtual void acknowledge() {}
  // Tells whether the peer has taken all that was sent. Whoever has to wait for that long asks for
  // a completion: Transport::report_delivery().
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
