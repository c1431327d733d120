// Frames over a non-blocking socket.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/bootstrap/frame.h"

namespace banyan {

// Reads exactly the frame that is asked for and not a byte more, so that the socket can be handed
// on after any frame.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(Descriptor socket) : socket_(std::move(socket)) {}
  FrameSocket(FrameSocket&&) = default;
  FrameSocket& operator=(FrameSocket&& other) noexcept;
  ~FrameSocket();

  int descriptor() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }

  // A whole frame, or nothing yet. kPeerLost: the other side has closed; else as parse_header.
  Result<std::optional<Frame>> read(size_t payload_most);
  // Queues, then sends as much as the socket takes.
  Status write(Bytes frame);
  Status flush();
  bool all_sent() const { return sent_ == pending_.size(); }

  // The socket, with whatever is in it.
  Descriptor take() { return std::move(socket_); }

 private:
  // Shut down first: a process that was forked meanwhile may hold the same socket open.
  void end();
  Result<bool> read_up_to(size_t size);

  Descriptor socket_;
  Bytes in_;  // of the frame that is being read
  size_t have_ = 0;
  std::optional<FrameHeader> header_;
  Bytes pending_;
  size_t sent_ = 0;
};

// Waits until the descriptor has one of the events. False: the deadline has passed.
bool wait_for(int descriptor, short events, TimePoint deadline);

}  // namespace banyan
