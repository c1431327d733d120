// The list of transports, the grammar of BANYAN_TRANSPORTS, and what transports do unless they can
// do better.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/parse.h"
#include "transports/kinds.h"
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

}  // namespace banyan
