// Transports are listed here, with the grammar of BANYAN_TRANSPORTS, and what transports do unless
// they can do better.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/parse.h"
#include "transports/kinds.h"
#include "transports/transport.h"

namespace banyan {

Status Transport::report_delivery(int /*peer*/, Lane /*lane*/, uint64_t /*cookie*/) {
  return {Code::kUnsupported, fmt::format("{} has no quick lane there", name())};
}

Result<std::byte*> Transport::allocate(size_t /*bytes*/, TimePoint /*deadline*/) {
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

bool has(std::span<const int> list, int entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

// Which kinds the words name, in their order, without the '^' before them.
Result<std::vector<int>> named(std::string_view text) {
  const auto kinds = transport_kinds();
  const std::string_view list = text.substr(text.substr(0, 1) == "^" ? 1 : 0);
  std::vector<int> result;
  int position = 0;
  for (const std::string_view raw : split(list, ',')) {
    ++position;
    const std::string_view word = trim(raw);
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const TransportKind& row) { return row.name == word; });
    if (kind == kinds.end()) {
      const bool exclusion = word.substr(0, 1) == "^";
      return Status(Code::kInvalidArgument,
                    fmt::format("transports '{}': word {} '{}' {}; valid: {}", text, position, word,
                                exclusion ? "has a '^', which may only stand before the whole list"
                                          : "is unknown",
                                join(names())));
    }
    const auto index = static_cast<int>(kind - kinds.begin());
    if (has(result, index)) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("transports '{}': word {} '{}' is there twice", text, position, word));
    }
    result.push_back(index);
  }
  return result;
}

// All but those, in their own order.
std::vector<int> without(std::span<const int> excluded) {
  std::vector<int> rest;
  for (int kind = 0; kind < static_cast<int>(transport_kinds().size()); ++kind)
    if (!has(excluded, kind)) rest.push_back(kind);
  return rest;
}

}  // namespace

Result<std::vector<int>> parse_transports(std::string_view text) {
  const std::string_view all = trim(text);
  const bool excluding = all.substr(0, 1) == "^";
  const bool automatic = excluding || all.empty();
  std::vector<int> words;
  if (!all.empty()) {
    auto parsed = named(all);
    BANYAN_TRY(parsed.status());
    words = std::move(*parsed);
  }
  std::vector<int> chosen;
  for (const int index : automatic ? without(words) : words) {
    const TransportKind& kind = transport_kinds()[static_cast<size_t>(index)];
    const std::string why = kind.missing();
    if (why.empty()) {
      chosen.push_back(index);
    } else if (!automatic) {
      return Status(Code::kUnsupported,
                    fmt::format("transports '{}': {} is missing: {}", all, kind.name, why));
    }
  }
  if (chosen.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("transports '{}' leaves none; valid: {}", all, join(names())));
  }
  return chosen;
}

}  // namespace banyan
