// This transport sends tagged messages over a wire: messages of any length become frames.
//
//     frame        Envelope, and the payload if it is short
//     piece        of a longer payload: as long as `Pieces` says, the last one shorter
//     acceptance   0 bytes, from the receiver: a message of the message lane has been received
//     greeting     0 bytes, for a wire that connects by the first message
//
// The tag of each is epoch | kind | lane | sender | number, and numbers count up for each of these,
// so every tag is used once: a receive never meets anything but its own frame or piece. A long
// payload goes straight from and to the caller's memory, or through bounce buffers if it is
// combined on arrival; its pieces follow the frame at once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "transports/framed/wire.h"
#include "transports/message.h"
#include "transports/quick_lane.h"
#include "transports/transport.h"

namespace banyan {

enum class FrameKind : uint8_t { kFrame, kPiece, kAcceptance, kGreeting };
// epoch 16 bits | kind 2 | lane 1 | sender 17 | number 28
uint64_t frame_tag(uint32_t epoch, FrameKind kind, Lane lane, int sender, uint32_t number);

// How payloads are cut that are longer than a frame; the same on all ranks.
struct Pieces {
  static constexpr uint64_t kLongPayload = 1 << 20;  // longer ones are long
  size_t bytes;
  size_t of_long;

  size_t length(uint64_t payload) const { return payload > kLongPayload ? of_long : bytes; }
  size_t at(uint64_t offset, uint64_t payload) const {
    return std::min<uint64_t>(payload - offset, length(payload));
  }
  uint32_t count(uint64_t payload) const {
    return static_cast<uint32_t>((payload + length(payload) - 1) / length(payload));
  }
};

inline constexpr size_t kPiecesInFlight = 4;

// Equal blocks of memory. take() returns -1 when all are taken.
class BufferPool {
 public:
  BufferPool(size_t count, size_t bytes);
  int take();
  void give(int index) { free_.push_back(index); }
  bool empty() const { return free_.empty(); }
  std::byte* at(int index) { return memory_.data() + index * bytes_; }

 private:
  size_t bytes_;
  std::vector<std::byte> memory_;
  std::vector<int> free_;  // never grows beyond its first capacity
};

// What the ports of one transport share.
struct FramedContext {
  Wire& wire;
  int rank;
  uint32_t epoch;
  size_t short_most;  // bytes of payload that travel in the frame; the same on all ranks
  Pieces pieces;
  BufferPool frames;
  BufferPool bounces;
  Completions completions;
};

// Gives the longest payload in a frame: what the wire likes best, or less when many ranks mean many
// frame buffers.
size_t short_payload_most(size_t best, int ranks);

class FramedSend {
 public:
  FramedSend(int peer, Lane lane) : peer_(peer), lane_(lane) {}
  bool idle() const { return entries_.empty(); }
  bool full() const { return entries_.full(); }
  void push(const Transfer& transfer);
  // A whole message in one frame, at once and past the queue; nobody is told when it has left.
  QuickLane::Departure send_whole(const std::byte* memory, const Envelope& envelope,
                                  FramedContext& context);
  void progress(FramedContext& context);
  void cancel(Wire& wire);
  bool pending() const;

 private:
  struct Entry {
    Transfer transfer;
    bool whole = false;  // by send_whole()
    uint32_t number = 0;
    uint32_t next_piece = 0;
    uint64_t bytes_posted = 0;
    bool started = false;
    Code code = Code::kOk;
    int buffer = -1;
    WireOperation frame;
    WireOperation acceptance;
    std::array<WireOperation, kPiecesInFlight> pieces;

    bool pending() const;
  };

  void start(Entry& entry, FramedContext& context);
  void advance(Entry& entry, FramedContext& context);
  void settle(Entry& entry, WireOperation& operation) const;
  bool is_done(const Entry& entry, const FramedContext& context) const;

  int peer_;
  Lane lane_;
  uint32_t messages_ = 0;
  uint32_t pieces_ = 0;
  FixedQueue<Entry, 8> entries_;
};

class FramedReceive {
 public:
  FramedReceive(int peer, Lane lane) : peer_(peer), lane_(lane) {}
  // Asks for the first frame.
  void open(FramedContext& context);
  bool idle() const { return transfers_.empty() && !moving_; }
  bool full() const { return transfers_.full(); }
  void push(const Transfer& transfer) { transfers_.push(transfer); }
  void progress(FramedContext& context);
  // Receives the message at the head, if it is the expected one and in its frame, at once and past
  // the queue.
  QuickLane::Arrival receive_whole(const Transfer& transfer, FramedContext& context);
  std::optional<Envelope> peek(FramedContext& context);
  void cancel(Wire& wire);
  bool pending() const;

 private:
  struct Piece {
    WireOperation operation;
    uint64_t offset = 0;
    size_t bytes = 0;
    int bounce = -1;
  };

  void ask_for_frame(FramedContext& context);
  bool find_head(FramedContext& context);
  bool is_consistent(const FramedContext& context) const;
  bool match(FramedContext& context);
  void begin(FramedContext& context, bool dropping);
  bool move(FramedContext& context);
  void settle(Piece& piece, FramedContext& context);
  bool ask_for_piece(Piece& piece, FramedContext& context);
  bool finish(FramedContext& context);
  void complete(FramedContext& context, Code code);
  void fail_all(FramedContext& context, Code code);
  WireOperation* spare_acceptance();

  int peer_;
  Lane lane_;
  std::vector<std::byte> frame_;
  WireOperation frame_operation_;
  bool has_head_ = false;
  Envelope head_;
  bool moving_ = false;    // pieces of head_, for the first of transfers_ ...
  bool dropping_ = false;  // ... or for nobody: another epoch
  Code code_ = Code::kOk;  // of what is moving
  Code broken_ = Code::kOk;
  uint64_t bytes_asked_ = 0;
  uint32_t messages_ = 0;
  uint32_t pieces_asked_ = 0;
  std::array<Piece, kPiecesInFlight> pieces_;
  std::array<WireOperation, 8> acceptances_;
  FixedQueue<Transfer, 8> transfers_;
};

std::unique_ptr<Transport> make_framed_transport(std::string_view name, std::unique_ptr<Wire> wire,
                                                 size_t short_most, Pieces pieces,
                                                 const Wiring& wiring, std::span<const int> peers);

}  // namespace banyan
