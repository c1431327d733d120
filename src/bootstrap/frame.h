// Frames: ranks say this to each other over a socket, as bytes. Pure functions, no I/O.
//
// A frame, little-endian:
//
//    0        4         6      8        12      16         20     24
//   +--------+---------+------+--------+-------+----------+------+---------------------+---------+
//   | magic  | version | type | length | epoch | sequence | rank | length payload bytes | MAC, 32 |
//   +--------+---------+------+--------+-------+----------+------+---------------------+---------+
//
// The MAC is over everything before it. `epoch` is the round of an exchange, or the communicator of
// a link; `sequence` counts the frames of one direction; `rank` is the sender's, -1 a rendezvous.
// The header is the only thing that is looked at before the MAC is verified.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/bootstrap/authentication.h"
#include "src/bootstrap/exchange.h"

namespace banyan {

enum class FrameType : uint16_t {
  kHello = 1,     // client: a nonce
  kChallenge,     // server: a nonce
  kResponse,      // client: a Joiner
  kWelcome,       // server: let in
  kReady,         // rendezvous: all ranks are there; a nonce
  kContribution,  // member: its bytes of one round
  kResultPart,    // rendezvous: a part of all bytes of one round; more follow
  kResult,        // rendezvous: the last part
  kVerdict,       // rendezvous: a RendezvousVerdict, and nothing more
  kLeave,         // member: ends as planned
  kOtherVersion,  // server: a header alone, so that the other side can say which version it met
  kGiveUp,        // member: cannot go on; a RendezvousVerdict says why
};

inline constexpr uint32_t kFrameMagic = 0x4e594e42;  // "BNYN"
inline constexpr uint16_t kFrameVersion = 2;
inline constexpr size_t kHeaderSize = 24;
inline constexpr size_t kMacSize = sizeof(Mac);
inline constexpr size_t kPayloadMost = 64 * 1024;
// Hello, challenge, response and welcome are no larger.
inline constexpr size_t kHandshakePayloadMost = 64;

struct FrameHeader {
  FrameType type = FrameType::kHello;
  uint32_t length = 0;
  uint32_t epoch = 0;
  uint32_t sequence = 0;
  int32_t rank = -1;
  bool operator==(const FrameHeader&) const = default;
};
Bytes encode_header(const FrameHeader& header);
// kCorrupt: no frame of ours; kUnsupported: of another version, which is named.
Result<FrameHeader> parse_header(std::span<const std::byte> bytes, size_t payload_most);

// A whole frame as received. Its MAC is not yet verified.
struct Frame {
  FrameHeader header;
  Bytes bytes;

  std::span<const std::byte> before_mac() const {
    return std::span(bytes).first(bytes.size() - kMacSize);
  }
  std::span<const std::byte> payload() const { return before_mac().subspan(kHeaderSize); }
  Mac mac() const;
};

// Who comes to a rendezvous or a link.
struct Joiner {
  int rank = 0;
  int size = 1;
  uint64_t remaining_ms = 0;  // of its time limit; the largest value: none
  uint32_t pid = 0;
  // How often its process has met others before, or tried to, where it has no id.
  uint32_t call = 0;
  // Since it began to look for the others; the largest number: it has an id.
  uint64_t waited_ms = 0;
  bool operator==(const Joiner&) const = default;
};
Bytes encode_joiner(const Joiner& joiner);
Result<Joiner> parse_joiner(std::span<const std::byte> payload);

Result<Nonce> parse_nonce(std::span<const std::byte> payload);

// How a meeting failed, or why a member gives up: never ok.
struct RendezvousVerdict {
  Status status;
};
// A code that no meeting ends with becomes kInternal, a long text is cut.
Bytes encode_verdict(const Status& status);
Result<RendezvousVerdict> parse_verdict(std::span<const std::byte> payload);

// What all ranks gave in one round. Parts may be of any length.
Bytes encode_result(std::span<const Bytes> contributions);
Result<std::vector<Bytes>> parse_result(std::span<const std::byte> bytes, int size);
constexpr size_t result_most(int size) {
  return static_cast<size_t>(size) * (kExchangeMost + sizeof(uint32_t));
}

}  // namespace banyan
