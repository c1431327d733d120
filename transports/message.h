// What every transport does the same way with a message: judging it and delivering it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "banyan/status.h"
#include "src/base/copy.h"
#include "src/base/lengths.h"
#include "transports/transport.h"

namespace banyan {

// Fragments of messages that are combined hold whole elements, so an element on the wire may not be
// longer than the shortest fragment of any transport, and is a power of two.
inline constexpr uint32_t kMessageElementMost = 512;

// kInvalidArgument: peer not served, no memory, a combination that cannot be cut into fragments, or
// `up_to` where it means nothing.
Status check_transfer(const Transfer& transfer, bool served);

// Enumerators within their range: what came from a peer may be printed and compared.
bool is_valid(const Envelope& envelope);

// What a receive makes of the envelope at the head of its lane. `epoch` is the communicator's. What
// is accepted is no longer than receive.envelope.bytes.
enum class Judgement : uint8_t { kAccept, kDrop, kMismatch, kCorrupt };
Judgement judge(const Envelope& seen, const Transfer& receive, uint32_t epoch);

// copy_bytes, without a call for the sizes of small messages.
inline void copy_few(std::byte* to, const std::byte* from, size_t bytes) {
  const auto ends = [&]<typename Word>(Word) {
    Word first, last;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, from + bytes - sizeof last, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + bytes - sizeof last, &last, sizeof last);
  };
  if (bytes > 2 * sizeof(uint64_t)) {
    copy_bytes(to, from, bytes);
  } else if (bytes >= sizeof(uint64_t)) {
    ends(uint64_t{});
  } else if (bytes >= sizeof(uint32_t)) {
    ends(uint32_t{});
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

// Whether what a receive writes had better not be in a cache: nobody reads it soon, and what the
// call writes is more than caches hold.
inline bool bypasses_caches(const Transfer& receive) {
  return receive.usage.is_result && receive.usage.output_bytes >= kUncachedLeast;
}

// Bytes [offset, offset + bytes) of the message of a receive have come.
void deliver_far(const Transfer& transfer, uint64_t offset, const std::byte* incoming,
                 size_t bytes);
inline void deliver(const Transfer& transfer, uint64_t offset, const std::byte* incoming,
                    size_t bytes) {
  if (bytes == 0) return;
  if (bypasses_caches(transfer)) return deliver_far(transfer, offset, incoming, bytes);
  if (transfer.combine == nullptr) {
    copy_few(transfer.memory + offset, incoming, bytes);
    return;
  }
  const int element_bits = std::countr_zero(transfer.message_element);
  const uint64_t at = (offset >> element_bits) * transfer.local_element;
  transfer.combine(transfer.memory + at, transfer.local + at, incoming, bytes >> element_bits);
}

// First in, first out, of a fixed capacity: no allocation after construction.
template <typename T, size_t kCapacity>
class FixedQueue {
 public:
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return items_[(first_ + i) % kCapacity]; }
  const T& operator[](size_t i) const { return items_[(first_ + i) % kCapacity]; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  void push(const T& item) { items_[(first_ + count_++) % kCapacity] = item; }
  void pop() {
    first_ = (first_ + 1) % kCapacity;
    --count_;
  }
  // Drops the first `count`.
  void pop(size_t count) {
    first_ = (first_ + count) % kCapacity;
    count_ -= count;
  }

 private:
  std::array<T, kCapacity> items_{};
  size_t first_ = 0;
  size_t count_ = 0;
};

// What poll() will report. Transfers stay pending while it is full.
using Completions = FixedQueue<Completion, 256>;
size_t report(Completions& from, std::span<Completion> to);

}  // namespace banyan
