// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/tallies.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

#include "tests/cuda/driver/results.h"

namespace banyan::standin {

namespace {

constexpr int kNever = std::numeric_limits<int>::min();

// By the hash of its name. Nothing here orders the memory of callers, so that they are not
// synchronized by it where the thread sanitizer looks.
struct Tally {
  std::atomic<uint64_t> name{0};
  std::atomic<long> calls{0};
  std::atomic<int> error{kSuccess};
  std::atomic<int> good{0};  // calls before that one; kNever: all fail
};
std::array<Tally, 256> tallies;

std::string_view without_version(std::string_view function) {
  const size_t end = function.rfind("_v");
  return end == std::string_view::npos ? function : function.substr(0, end);
}

Tally& tally_of(std::string_view function) {
  const uint64_t name = std::hash<std::string_view>()(without_version(function)) | 1;
  for (size_t i = name % tallies.size();; i = (i + 1) % tallies.size()) {
    uint64_t there = 0;
    if (tallies[i].name.compare_exchange_strong(there, name, std::memory_order_relaxed) ||
        there == name)
      return tallies[i];
  }
}

}  // namespace

int count_call(std::string_view function) {
  Tally& tally = tally_of(function);
  tally.calls.fetch_add(1, std::memory_order_relaxed);
  if (tally.error.load(std::memory_order_acquire) == kSuccess) return kSuccess;
  if (tally.good.load(std::memory_order_relaxed) == kNever)
    return tally.error.load(std::memory_order_relaxed);
  if (tally.good.fetch_sub(1, std::memory_order_relaxed) != 0) return kSuccess;
  return tally.error.exchange(kSuccess, std::memory_order_relaxed);
}

void fail_call(std::string_view function, int after, int error) {
  Tally& tally = tally_of(function);
  tally.error.store(kSuccess, std::memory_order_relaxed);
  tally.good.store(after < 0 ? kNever : after, std::memory_order_relaxed);
  tally.error.store(error, std::memory_order_release);
}

long calls_of(std::string_view function) {
  return tally_of(function).calls.load(std::memory_order_relaxed);
}

}  // namespace banyan::standin
