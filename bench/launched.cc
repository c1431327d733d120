// SPDX-License-Identifier: Apache-2.0

#include "bench/launched.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "src/bootstrap/launcher_claims.h"

namespace banyan {
namespace {

// Finds a launcher that says several ranks, or does not say how many.
std::optional<Claim> claim_of_several(const RawEnvironment& raw) {
  const auto claims = claims_of(Variables(raw));
  const auto found = std::find_if(claims.begin(), claims.end(), [](const Claim& claim) {
    return claim.wrong.ok() && !claim.one_rank();
  });
  return found == claims.end() ? std::nullopt : std::optional<Claim>(*found);
}

}  // namespace

std::string second_job(const RawEnvironment& raw) {
  const auto claim = claim_of_several(raw);
  if (!claim) return "";
  return fmt::format(
      "it starts ranks on this machine, and a launcher has started ranks already: {}; leave out "
      "-n, "
      "or unset these variables",
      claim->text());
}

int refuse_once(int status, std::string_view text, const RawEnvironment& raw) {
  constexpr auto kUntilTheFirstHasSaidIt = std::chrono::milliseconds(500);
  const auto claim = claim_of_several(raw);
  if (claim && claim->rank != 0) {
    // The launcher ends all ranks with the first that ends: rank 0 has to have said why by then.
    std::this_thread::sleep_for(kUntilTheFirstHasSaidIt);
  } else {
    std::fputs(std::string(text).c_str(), stderr);
  }
  return status;
}

}  // namespace banyan
