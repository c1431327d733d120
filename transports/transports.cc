// The list of transports, the grammar of BANYAN_TRANSPORTS, and what all transports share.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/parse.h"
#include "transports/kinds.h"
#include "transports/message.h"
#include "transports/transport.h"

namespace banyan {

Result<std::byte*> Transport::allocate(size_t /*bytes*/) {
  return Status(Code::kUnsupported,
                fmt::format("transport {} has no memory that peers read in place", name()));
}

Status Transport::release(std::byte* memory) {
  return {Code::kInvalidArgument, fmt::format("{} was not allocated by transport {}",
                                              static_cast<const void*>(memory), name())};
}

std::span<const TransportKind> transport_kinds() {
  static const std::array<TransportKind, 3> kinds = {shm_kind(), ucx_kind(), loopback_kind()};
  return kinds;
}

namespace {

std::vector<std::string_view> names() {
  std::vector<std::string_view> result;
  for (const TransportKind& kind : transport_kinds()) result.push_back(kind.name);
  return result;
}

// Which kinds the words name.
Result<std::vector<bool>> named(std::string_view list) {
  const auto kinds = transport_kinds();
  std::vector<bool> result(kinds.size());
  int position = 0;
  for (const std::string_view raw : split(list, ',')) {
    ++position;
    const std::string_view word = trim(raw);
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const TransportKind& row) { return row.name == word; });
    if (kind == kinds.end()) {
      const bool exclusion = word.substr(0, 1) == "^";
      return Status(Code::kInvalidArgument,
                    fmt::format("transports '{}': word {} '{}' {}; valid: {}", list, position, word,
                                exclusion ? "has a '^', which may only stand before the whole list"
                                          : "is unknown",
                                join(names())));
    }
    const auto index = static_cast<size_t>(kind - kinds.begin());
    if (result[index]) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("transports '{}': word {} '{}' is there twice", list, position, word));
    }
    result[index] = true;
  }
  return result;
}

}  // namespace

Result<std::vector<int>> parse_transports(std::string_view text) {
  const auto kinds = transport_kinds();
  const std::string_view all = trim(text);
  const bool excluding = all.substr(0, 1) == "^";
  const bool automatic = excluding || all.empty();
  std::vector<bool> words(kinds.size());
  if (!all.empty()) {
    auto parsed = named(excluding ? all.substr(1) : all);
    BANYAN_TRY(parsed.status());
    words = *parsed;
  }
  std::vector<int> chosen;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (words[i] == automatic) continue;
    const std::string why = kinds[i].missing();
    if (why.empty()) {
      chosen.push_back(static_cast<int>(i));
    } else if (!automatic) {
      return Status(Code::kUnsupported,
                    fmt::format("transports '{}': {} is missing: {}", all, kinds[i].name, why));
    }
  }
  if (chosen.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("transports '{}' leaves none; valid: {}", all, join(names())));
  }
  return chosen;
}

Status check_transfer(const Transfer& transfer, bool served) {
  if (!served) {
    return {Code::kInvalidArgument,
            fmt::format("rank {} is not served by this transport", transfer.peer)};
  }
  if (transfer.memory == nullptr && transfer.envelope.bytes != 0) {
    return {Code::kInvalidArgument, fmt::format("no memory for {} bytes", transfer.envelope.bytes)};
  }
  if (transfer.direction == Direction::kSend || transfer.combine == nullptr) return {};
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
         static_cast<int>(signature.op) < kReduceOpCount;
}

Judgement judge(const Envelope& seen, const Envelope& expected, uint32_t epoch) {
  if (seen.epoch != epoch) return Judgement::kDrop;
  if (!is_valid(seen)) return Judgement::kCorrupt;
  return seen == expected ? Judgement::kAccept : Judgement::kMismatch;
}

size_t report(Completions& from, std::span<Completion> to) {
  const size_t count = std::min(from.size(), to.size());
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
  from.pop(count);
  return count;
}

}  // namespace banyan
