// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/standin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/cuda/driver/mapped.h"
#include "tests/cuda/driver/state.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

Located known(uint64_t address, size_t bytes) {
  Located found = state().memory.locate(address, bytes);
  if (found.whole && !found.is_pageable()) return found;
  std::fprintf(stderr, "stand-in CUDA: %zu bytes at 0x%llx are not the driver's\n", bytes,
               static_cast<unsigned long long>(address));
  std::abort();
}

}  // namespace

void standin_cuda_fail(const char* function, int after, int error) {
  fail_call(function, after, error);
}

void standin_cuda_break(int error) {
  const auto& stack = thread_state().stack;
  if (!stack.empty()) return stack.back()->break_with(error);
  for (const auto& context : state().contexts) context->break_with(error);
}

long standin_cuda_calls(const char* function) {
  return calls_of(function);
}

long standin_cuda_live(const char* what) {
  const std::string_view name = what;
  if (name == "memory") return static_cast<long>(state().memory.size());
  if (name == "streams") return static_cast<long>(state().streams.size());
  if (name == "events") return static_cast<long>(state().events.size());
  if (name == "modules") return static_cast<long>(state().modules.size());
  if (name == "graphs")
    return static_cast<long>(state().graphs.size() + state().executables.size());
  if (name == "physical") return Physical::count();
  if (name == "handles") return mapped_memory().handles();
  if (name == "ranges") return mapped_memory().reservations();
  if (name == "contexts") {
    long active = 0;
    for (const auto& context : state().contexts) active += context->active() ? 1 : 0;
    return active;
  }
  return -1;
}

void standin_cuda_peek(void* host, uint64_t device_address, size_t bytes) {
  std::memcpy(host, known(device_address, bytes).own, bytes);
}

void standin_cuda_poke(uint64_t device_address, const void* host, size_t bytes) {
  std::memcpy(known(device_address, bytes).own, host, bytes);
}

void standin_cuda_seed(uint64_t seed) {
  set_seed(seed);
}

void standin_cuda_delay(int most_us) {
  set_most_delay_us(most_us);
}
