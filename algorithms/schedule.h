// A schedule is a collective, compiled for one rank: a list of steps and the order they impose on
// each other.
//
// It is a value. It holds no pointer, no handle and no address, so it can be built without a
// network, printed, compared, cached across calls, and checked (verify.h). Real memory and real
// transports meet it only in the engine.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "src/base/codec.h"

namespace banyan {

// What a Slice's offset is measured from.
enum class Space : uint8_t {
  kInput,    // the caller's send buffer; never written
  kOutput,   // the caller's recv buffer. In place: everything is kOutput, kInput does not occur
  kScratch,  // of this execution; undefined at its start, 64-byte aligned
  kLeft,     // the caller's, float32: what messages do not say; only written, each element once
  kWindow,   // of this call: memory of this rank's GPU that its peers read; undefined at its start
};
inline constexpr int kSpaceCount = 5;
inline constexpr uint64_t kWindowBytes = uint64_t{32} << 20;  // of one call
inline constexpr int kMostWindows = 16;                       // ranks that read each other's
inline constexpr uint64_t kOfferBytes = 256;                  // what a rank says of its window
// And, where it alone knows, to how many bytes it gives each of so many ranks, and takes from each.
constexpr uint64_t listed_offer_bytes(size_t ranks) {
  return kOfferBytes + 2 * ranks * sizeof(uint64_t);
}
// Shorter calls take less time by the host than by windows: a copy to a GPU and one back have 12 us
// (docs/gpu.md), and what ranks tell each other and kernels have more.
inline constexpr uint64_t kPeersLeast = uint64_t{64} << 10;

// A range of bytes. Or a wire slot, which is a range of scratch that holds one message of a codec:
// its size is the most that such a message has, and how long the one in it is, the step that writes
// it says at run time.
struct Slice {
  Space space = Space::kScratch;
  uint32_t slot = 0;  // number of the wire slot, from 1; 0: it is none
  uint64_t offset = 0;
  uint64_t size = 0;

  constexpr Slice() = default;
  constexpr Slice(Space of, uint64_t from, uint64_t bytes, uint32_t wire_slot = 0)
      : space(of), slot(wire_slot), offset(from), size(bytes) {}

  bool is_slot() const { return slot != 0; }
  uint64_t end() const { return offset + size; }
  // `size` bytes from `offset` on, within this slice.
  Slice sub(uint64_t from, uint64_t bytes) const { return {space, offset + from, bytes}; }
  bool operator==(const Slice&) const = default;
};

// "T" is the call's element type, "A" its accumulator type: accumulator_of(T, op).
//
// kEncode, kDecode and kDecodeAdd, where they have a codec, turn values into the message of a wire
// slot and back; Step::type is that of the values then, and nothing is divided or scaled. Whoever
// encodes a part of what was selected from reads the selection as src2.
enum class Op : uint8_t {
  kSend,       // src -> peer; of a wire slot, the message in it
  kRecv,       // peer -> dst
  kCopy,       // dst = src
  kReduce,     // dst = src (+) src2, all of Step::type
  kEncode,     // dst = src, A -> T, divided by the number of ranks for kAvg. With a codec: dst is a
               // wire slot, and what its message does not say of src goes to dst2, if there is one
  kDecode,     // dst = src, T -> A, times this rank's scalar for kPreMulSum
  kDecodeAdd,  // dst = src (+) widened src2; dst and src are A, src2 is T; no scalar
  kSelect,     // dst = the codec's selection from src, or its look at src, or one from looks
  // With windows (peers.h). A copy from kWindow that names a peer reads that rank's.
  kOffer,     // dst = what this rank says of its window, for a call whose buffers are src and src2,
              // and behind it, where dst is longer, what its delegation has: how many bytes it
              // gives each and takes from each
  kDecide,    // looks at what all ranks of the group said, in src, and decides Step::branch
  kFold,      // dst = the windows at src, combined in the order of ranks: T, each times its rank's
              // scalar for kPreMulSum, and divided. In scratch it is a partial sum: A, of windows
              // that have A. What all ranks gave may lie in this rank's window: src2, in parts as
              // long as src
  kDelegate,  // something else moves what the ranks give each other: Schedule::delegations
  kWithdraw,  // the window is no longer this call's
  // Made by fuse() from a receive into scratch that only a reduction reads:
  kRecvReduce,     // dst = src (+) message, all of Step::type
  kRecvDecodeAdd,  // dst = src (+) widened message; dst and src are A, the message is T
};
std::string_view name_of(Op op);
// It sends or receives; the other steps are local.
constexpr bool is_transfer(Op op) {
  return op == Op::kSend || op == Op::kRecv || op == Op::kRecvReduce || op == Op::kRecvDecodeAdd;
}

// A schedule may have two ways to go on behind a kDecide. The steps of the other one are no steps.
enum class Branch : uint8_t { kAlways, kPeers, kOtherwise };

struct Step {
  Op op = Op::kCopy;
  DataType type = DataType::kInt8;  // kReduce, kRecvReduce: of the operands; codec steps: T
  CodecId codec = kNoCodec;         // of a step from or to a wire slot
  // Where its operands lie, which decides who runs it, or by which route it goes.
  MemoryKind memory = MemoryKind::kHost;
  Branch branch = Branch::kAlways;
  bool delegates = false;  // kOffer, kDecide: the call's windows are filled by kDelegate
  int32_t peer = -1;       // a rank of the communicator
  // Index into Schedule::codings, for a codec's step; into Schedule::delegations, for kDelegate and
  // a kOffer that has lists.
  uint32_t coding = 0;
  Slice src;
  Slice src2;
  Slice dst;
  Slice dst2{};

  bool operator==(const Step&) const = default;
};

// A port has the steps that use one direction to one peer, in program order. They are posted in
// this order, and the n-th send of a rank to a peer meets the n-th receive there.
struct Port {
  int32_t peer = -1;
  bool sending = false;
  uint32_t begin = 0;  // range in Schedule::port_steps
  uint32_t end = 0;
};

// Elements [begin, begin + count) of a vector.
struct Part {
  uint64_t begin;
  uint64_t count;
};

// Says of which elements of the call's vector a piece of kLeft is.
struct Left {
  uint64_t place;  // of its first element in kLeft
  Part elements;
};

// What a rank gives and takes in a kDelegate, by place among the ranks with windows, its own too.
// All of them begin their delegates in the same order, one at a time, and each ends for none before
// it has begun for all. Step::src and Step::dst reach around these. Or what it gives and takes in
// the whole call, where a kOffer says that.
struct Delegation {
  std::vector<Slice> to;
  std::vector<Slice> from;
};

struct Schedule {
  std::vector<Step> steps;
  // Dependencies: step s waits for dependency_count[s] steps; its successors are
  // successors[successors_begin[s] .. successors_begin[s + 1]).
  std::vector<uint32_t> dependency_count;
  std::vector<uint32_t> successors_begin;
  std::vector<uint32_t> successors;
  std::vector<Port> ports;
  std::vector<uint32_t> port_steps;
  std::vector<int32_t> port_of;  // per step: index into ports, -1 for local steps
  uint64_t scratch_size = 0;
  uint32_t slots = 0;           // wire slots are numbered from 1 to this
  std::vector<Coding> codings;  // without selections; the first, and where none is, the plain one
  // All that is written to kLeft. What elements of the caller lose lies where they are in the
  // vector, unless their codec serves several levels; all else lies behind the vector.
  std::vector<Left> lefts;
  uint64_t left_count = 0;  // elements that the caller must have there; 0: it needs none
  // Whose windows there are, in the order in which kFold combines them: this rank's, and those of
  // the others on its host. Empty: everybody's.
  std::vector<int32_t> window_ranks;
  std::vector<Delegation> delegations;

  std::span<const uint32_t> successors_of(uint32_t step) const {
    return std::span(successors)
        .subspan(successors_begin[step], successors_begin[step + 1] - successors_begin[step]);
  }
  uint64_t bytes_sent() const;  // at most, where there are wire slots
};

}  // namespace banyan
