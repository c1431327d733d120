// A network that carries tagged messages between workers, as the frames of framed.h need it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/status.h"
#include "banyan/types.h"

namespace banyan {

// One message on its way. It stays where it is until it is no longer pending.
struct WireOperation {
  enum class State : uint8_t { kIdle, kPending, kDone };
  State state = State::kIdle;
  Code code = Code::kOk;  // when done; kPeerLost, kCorrupt: longer than the memory for it, kAborted
  size_t bytes = 0;       // received
  void* request = nullptr;  // the wire's, and what becomes of it
  void (*free_request)(void*) = nullptr;

  bool pending() const { return state == State::kPending; }
  bool done() const { return state == State::kDone; }
};

// Messages meet receives by their whole tag. One thread.
class Wire {
 public:
  virtual ~Wire() = default;
  // Whether it reads and writes the memory of GPUs.
  virtual bool reaches_gpus() const { return false; }
  // The memory, which is of that kind, is the wire's until the operation is done. May be done at
  // once.
  virtual void send(int peer, uint64_t tag, const std::byte* memory, size_t bytes, MemoryKind kind,
                    WireOperation& operation) = 0;
  virtual void receive(uint64_t tag, std::byte* memory, size_t bytes, MemoryKind kind,
                       WireOperation& operation) = 0;
  // Ends a receive soon, with kAborted unless it was faster. Sends end by themselves.
  virtual void cancel(WireOperation& operation) = 0;
  // Gives up all peers: whatever is pending ends soon, with an error.
  virtual void close() = 0;
  // All sends have left.
  virtual void flush(WireOperation& operation) = 0;
  // Tells whether what was sent leaves this process without progress(): a send that is done need
  // not have left.
  virtual bool settled() { return true; }
  // Whether anything happened.
  virtual bool progress() = 0;
  virtual bool lost(int peer) const = 0;
  // The descriptor becomes readable when progress() finds something; false: it would now.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;
};

}  // namespace banyan
