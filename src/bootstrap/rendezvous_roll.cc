// Who has come to a rendezvous.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/rendezvous_roll.h"

#include <fmt/format.h>

namespace banyan {

std::string absent_ranks_have(const std::vector<bool>& present) {
  std::vector<std::string> parts;
  size_t count = 0;
  for (size_t first = 0; first < present.size(); ++first) {
    if (present[first]) continue;
    size_t last = first;
    while (last + 1 < present.size() && !present[last + 1]) ++last;
    count += last - first + 1;
    if (last - first >= 2) {
      parts.push_back(fmt::format("{}-{}", first, last));
    } else {
      for (size_t rank = first; rank <= last; ++rank) parts.push_back(fmt::format("{}", rank));
    }
    first = last;
  }
  std::string text = count == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return fmt::format("{} of {} {}", text, present.size(), count == 1 ? "has" : "have");
}

Status Roll::enter(const Joiner& joiner, std::string from) {
  const auto rank = static_cast<size_t>(joiner.rank);
  if (present_.empty()) {
    present_.resize(static_cast<size_t>(joiner.size));
    origins_.resize(static_cast<size_t>(joiner.size));
    joiners_.resize(static_cast<size_t>(joiner.size));
    first_ = joiner.rank;
  }
  if (joiner.size != size()) {
    return {Code::kMismatch,
            fmt::format("rank_count differs: rank {} ({}) says {}, rank {} ({}) says {}", first_,
                        origin(first_), size(), joiner.rank, from, joiner.size)};
  }
  if (present_[rank]) {
    return {Code::kMismatch,
            fmt::format("rank {} came twice, from {} and from {}; every rank needs a number of its "
                        "own",
                        joiner.rank, origin(joiner.rank), from)};
  }
  present_[rank] = true;
  origins_[rank] = std::move(from);
  joiners_[rank] = joiner;
  ++arrived_;
  return {};
}

bool Roll::is_later_call(const Joiner& joiner) const {
  const auto rank = static_cast<size_t>(joiner.rank);
  if (rank >= present_.size() || !present_[rank]) return false;
  return joiner.pid == joiners_[rank].pid && joiner.call > joiners_[rank].call;
}

}  // namespace banyan
