// SPDX-License-Identifier: Apache-2.0

#include "transports/message.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/copy_far.h"

namespace banyan {

std::string_view text_of(Passage passage) {
  switch (passage) {
    case Passage::kOnly: return "";
    case Passage::kSlots: return "through slots";
    case Passage::kInPlace: return "read in place";
    case Passage::kAfar: return "read from afar";
    case Passage::kPut: return "put in place";
    case Passage::kFrame: return "in one frame";
    case Passage::kPieces: return "in pieces";
  }
  return "";
}

Status check_transfer(const Transfer& transfer, bool served) {
  if (!served) {
    return {Code::kInvalidArgument,
            fmt::format("rank {} is not served by this transport", transfer.peer)};
  }
  if (transfer.memory == nullptr && transfer.envelope.bytes != 0) {
    return {Code::kInvalidArgument, fmt::format("no memory for {} bytes", transfer.envelope.bytes)};
  }
  if (transfer.kind == MemoryKind::kDevice && (transfer.up_to || transfer.combine != nullptr))
    return {Code::kInvalidArgument,
            "a message is not combined in the memory of a GPU, and has one length there"};
  if (transfer.up_to && transfer.direction == Direction::kSend)
    return {Code::kInvalidArgument, "a send has one length; only a receive takes any up to one"};
  if (transfer.direction == Direction::kSend || transfer.combine == nullptr) return {};
  if (transfer.up_to) {
    return {Code::kInvalidArgument,
            fmt::format("cannot combine a message of any length up to {} bytes",
                        transfer.envelope.bytes)};
  }
  const uint32_t element = transfer.message_element;
  if (!std::has_single_bit(element) || element > kMessageElementMost ||
      transfer.local_element == 0 || transfer.envelope.bytes % element != 0 ||
      (transfer.local == nullptr && transfer.envelope.bytes != 0)) {
    return {
        Code::kInvalidArgument,
        fmt::format("cannot combine {} bytes in elements of {} into elements of {}; elements "
                    "of a message are a power of two up to {}",
                    transfer.envelope.bytes, element, transfer.local_element, kMessageElementMost)};
  }
  return {};
}

bool is_valid(const Envelope& envelope) {
  const CallSignature& signature = envelope.signature;
  return static_cast<int>(signature.collective) < kCollectiveCount &&
         static_cast<int>(signature.type) < kDataTypeCount &&
         static_cast<int>(signature.op) < kReduceOpCount &&
         static_cast<int>(signature.memory) < kMemoryKindCount;
}

Judgement judge(const Envelope& seen, const Transfer& receive, uint32_t epoch) {
  if (seen.epoch != epoch) return Judgement::kDrop;
  if (!is_valid(seen)) return Judgement::kCorrupt;
  Envelope expected = receive.envelope;
  if (receive.up_to && seen.bytes <= expected.bytes) expected.bytes = seen.bytes;
  return seen == expected ? Judgement::kAccept : Judgement::kMismatch;
}

size_t report(Completions& from, std::span<Completion> to) {
  const size_t count = std::min(from.size(), to.size());
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
  from.pop(count);
  return count;
}

// What is combined is combined in a cache first.
void deliver_far(const Transfer& transfer, uint64_t offset, const std::byte* incoming,
                 size_t bytes) {
  if (transfer.combine == nullptr) {
    copy_far(transfer.memory + offset, incoming, bytes);
    return;
  }
  constexpr size_t kPiece = 8192;
  alignas(64) std::array<std::byte, kPiece> piece;
  const size_t local_element = transfer.local_element;
  const size_t most = kPiece / local_element;
  size_t first = offset / transfer.message_element;
  for (size_t left = bytes / transfer.message_element; left > 0;) {
    const size_t count = std::min(left, most);
    transfer.combine(piece.data(), transfer.local + first * local_element, incoming, count);
    copy_far(transfer.memory + first * local_element, piece.data(), count * local_element);
    incoming += count * transfer.message_element;
    first += count;
    left -= count;
  }
}

}  // namespace banyan
