// This is the one interface between the engine and whatever moves bytes.
//
// Between two ranks there are two lanes, one for collectives and one for messages (send and recv).
// Within a lane and direction, messages arrive in the order they were posted, and the n-th posted
// send meets the n-th posted receive: nothing is matched by tag. A receive names the envelope that
// it expects, or the longest that it takes (Transfer::up_to); any other envelope at the head of the
// lane is reported, never delivered.
//
//   Result<std::unique_ptr<Transport>> shm = transport_kinds()[0].connect(wiring, peers);
//   Transport& transport = **shm;
//   while (transport.post(transfer).code() == Code::kBusy) transport.poll(completions);
//   for (bool done = false; !done;) {
//     const Result<size_t> count = transport.poll(completions);  // makes progress, never blocks
//     done = *count > 0 && completions[0].cookie == transfer.cookie;
//     if (done || !transport.arm()) continue;                     // it has something to do now
//     wait_until_readable(transport.descriptor());
//     transport.disarm();
//   }
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/interface.h"
#include "src/base/kernel_types.h"
#include "src/base/log.h"
#include "src/base/message_times.h"
#include "src/base/signature.h"

namespace banyan {

enum class Lane : uint8_t { kCollective, kMessage };
inline constexpr int kLaneCount = 2;
enum class Direction : uint8_t { kSend, kRecv };

// The header of a message, 32 bytes.
struct Envelope {
  uint32_t call = 0;   // number of the call on this communicator and lane
  uint32_t epoch = 0;  // of the communicator; a message of another epoch is dropped
  uint64_t bytes = 0;
  CallSignature signature;

  bool operator==(const Envelope&) const = default;
};
static_assert(sizeof(Envelope) == 32);

// What the call that a message belongs to does, on this rank. A transport with more than one way
// may choose by it. None of it has to be known.
struct Usage {
  uint64_t output_bytes = 0;  // that the call writes for its caller
  uint64_t caller_bytes = 0;  // that the caller gave it, input and output; 0: not known
  bool sums = false;          // it sums messages as they come
  bool given = false;         // sends: the caller wrote the memory, and no step does
  bool is_result = false;     // receives: the caller gets it like this, and no step reads it
};

// Half of a message: ours.
struct Transfer {
  Direction direction = Direction::kSend;
  Lane lane = Lane::kCollective;
  int peer = -1;
  Envelope envelope;  // what is sent, or what is expected
  // Makes a receive take a message of any length up to envelope.bytes, 0 included. Its completion
  // says which. What lies behind the message stays as it was. Such a message is not combined. Its
  // sender knows nothing of that: there, envelope.bytes is the length.
  bool up_to = false;
  std::byte* memory = nullptr;  // source (never written) or destination
  // What it is. Neither a receive of any length nor one that combines has its memory in a GPU.
  MemoryKind kind = MemoryKind::kHost;
  // Makes a receive store memory = local (+) message instead of memory = message. envelope.bytes is
  // the length of the message on the wire; memory and local have local_element for each
  // message_element.
  CombineKernel combine = nullptr;
  const std::byte* local = nullptr;
  uint32_t message_element = 1;
  uint32_t local_element = 1;
  Usage usage{};
  uint64_t cookie = 0;  // comes back in the Completion
};

// How a message went. kOnly: the transport has but one way.
enum class Passage : uint8_t { kOnly, kSlots, kInPlace, kAfar, kPut, kFrame, kPieces };
std::string_view text_of(Passage passage);  // "through slots"; empty: kOnly

// Tells how a transfer ended.
//
//   kOk        the memory is the caller's again; a send in the message lane completes only when its
//              receive has accepted it, one in the collective lane perhaps when it is buffered; of
//              a receive, `seen` is the envelope of what has come
//   kMismatch  `seen` is at the head of the lane instead
//   kPeerLost  the peer is gone
struct Completion {
  uint64_t cookie = 0;
  Code code = Code::kOk;
  Passage passage = Passage::kOnly;
  Envelope seen;
};

class QuickLane;

// Moves bytes between this rank and the peers it serves. Not thread-safe: whoever drives the engine
// owns it. No call blocks.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;

  // How long messages are, at least, that it reads and writes in such memory of this rank, but for
  // those of no bytes; none: it does not.
  virtual std::optional<uint64_t> carries_from(MemoryKind kind) const {
    return kind == MemoryKind::kDevice ? std::optional<uint64_t>() : uint64_t{0};
  }

  // Queues a transfer behind those posted before in its lane and direction to its peer. kBusy: the
  // queue is full; poll() and repeat. A send may complete inside post (then poll reports it).
  virtual Status post(const Transfer& transfer) = 0;

  // Queues a completion for when the peer has taken all that was sent to it in a lane: for who has
  // sent by the quick lane (quick_lane.h), and waits for no other completion there. kUnsupported:
  // the lane has none.
  virtual Status report_delivery(int peer, Lane lane, uint64_t cookie);

  // Makes progress, writes completions since the last call and returns how many.
  virtual Result<size_t> poll(std::span<Completion> completions) = 0;

  // Whether the last poll() moved bytes, also where nothing was complete with them.
  virtual bool moved() const { return false; }

  // Says, after a completion that failed, what the system said and what to do about it, where more
  // is known than the code.
  virtual std::string why_failed(int /*peer*/, Lane /*lane*/) const { return {}; }

  // That this rank and its peers here may run on, together. 0: not known.
  virtual int cores() const { return 0; }
  // Tells how many of this rank and its peers here share a core, rounded up. 1: they have one each,
  // so that whoever waits may keep its own. 0: not known.
  virtual int ranks_per_core() const { return 0; }

  // What messages to this rank took when it met its peers. Empty: nobody measured it.
  virtual MessageTimes message_times() const { return {}; }

  // Gives the envelope at the head of a lane from a peer, if a message has arrived there and no
  // receive has taken it. It serves to find ranks that make another call.
  virtual std::optional<Envelope> peek(int peer, Lane lane) = 0;

  // Gives the way past the queues of a lane (quick_lane.h), valid as long as the transport. Null
  // where there is none.
  virtual QuickLane* quick_lane(int /*peer*/, Lane /*lane*/) { return nullptr; }

  // arm() asks, for a sleep, that descriptor() becomes readable when poll() may have something to
  // do; false: it has something to do now. disarm() ends that and makes the descriptor unreadable.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int descriptor() const = 0;

  // Memory that peers read in place. kUnsupported where the transport has none.
  virtual Result<std::byte*> allocate(size_t bytes, TimePoint deadline);
  // kInvalidArgument: not from allocate().
  virtual Status release(std::byte* memory);

  // Tells whether what was posted leaves this rank without poll(). A peer may wait for it while
  // this rank has nothing more to do here.
  virtual bool settled() { return true; }

  // Before destruction in good order: everything posted has left this rank. kBusy: poll and repeat.
  virtual Status flush() { return {}; }

  // Makes the memory of transfers the caller's again after a failure, by the time that it returns,
  // whatever became of them. Nothing is posted or polled afterwards.
  virtual void abandon() {}
};

// The communicator offers this while transports connect. All ranks make the same calls in the same
// order. Bytes have come over an authenticated channel, but their content is still a peer's.
class Wiring {
 public:
  struct Peer {
    bool same_host = false;
    bool same_process = false;
    int pid = 0;
  };

  virtual ~Wiring() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Peer& peer(int rank) const = 0;
  virtual uint32_t epoch() const = 0;
  virtual const Log& log() const = 0;
  // Connecting ends then.
  virtual TimePoint deadline() const = 0;
  // Why waiting for the others has become vain, where that is so.
  virtual Status news() = 0;
  // BANYAN_NET_DEVICES: the devices that a transport between hosts may use; empty: all.
  virtual std::string_view net_devices() const = 0;
  // BANYAN_GPU_DIRECT: whether a transport between hosts reads and writes the memory of GPUs;
  // empty: as it finds best.
  virtual std::optional<bool> gpu_direct() const = 0;
  // Those of this host that have addresses; none: it does not matter which of them are used.
  virtual std::span<const Interface> interfaces() const = 0;
  // BANYAN_SINGLE_COPY says from which length on this rank reads messages straight from the memory
  // of ranks of its host; 0: never; empty: as it finds best.
  virtual std::optional<uint64_t> single_copy_least() const = 0;
  // Collective over all ranks; result[r] is what rank r gave. At most 64 KiB each.
  virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) = 0;
  // Pass descriptors to and from a peer on the same host, by SCM_RIGHTS, at most 8 at once. Sending
  // does not wait for the peer to receive.
  virtual Status send_descriptors(int peer, std::span<const int> descriptors) = 0;
  virtual Result<std::vector<Descriptor>> receive_descriptors(int peer, size_t count) = 0;
  // Gives one object for all ranks of this communicator that are threads of this process: the first
  // to ask makes it.
  virtual std::shared_ptr<void> share_in_process(
      std::string_view key, const std::function<std::shared_ptr<void>()>& make) = 0;
};

// One row of the list of transports.
struct TransportKind {
  std::string_view name;  // as BANYAN_TRANSPORTS has it
  std::string_view text;
  bool in_memory;  // through memory that both ranks can touch, or else over a network
  // Empty: this build and machine have it; otherwise why not, and what to do about it.
  std::string (*missing)();
  // Whether it can carry bytes to that peer. Pure: all ranks come to the same answer.
  bool (*reaches)(const Wiring::Peer& peer);
  // Connects to `peers`; null where there are none. Collective: every rank calls it, also with an
  // empty list.
  Result<std::unique_ptr<Transport>> (*connect)(Wiring& wiring, std::span<const int> peers);
};

// shm, ucx, loopback; preferred first.
std::span<const TransportKind> transport_kinds();

// Reads "shm,ucx" or "^ucx"; empty: all that are there. It gives indices into transport_kinds(),
// preferred first.
//
//   kInvalidArgument  names the word, its position and the valid words
//   kUnsupported      a transport is missing here
Result<std::vector<int>> parse_transports(std::string_view text);

}  // namespace banyan
