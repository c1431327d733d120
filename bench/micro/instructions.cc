// bench/instructions counts the instructions of these cases: each is a function of its own, called
// once, that makes the same call so many times.
//
// usage: instructions CALLS
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <cstdlib>

#include "bench/micro/small_calls.h"

namespace banyan {

template <int kRanks, int kBytes>
[[gnu::noinline]] void case_program(SmallCalls& calls, long count) {
  for (; count > 0; --count) calls.by_programs();
}

template <int kRanks, int kBytes>
[[gnu::noinline]] void case_engine(SmallCalls& calls, long count) {
  for (; count > 0; --count) calls.by_engines();
}

void case_door(SmallCalls& calls, long count);
[[gnu::noinline]] void case_door(SmallCalls& calls, long count) {
  for (; count > 0; --count) calls.by_door();
}

namespace {

template <int kRanks, int kBytes>
void both(long count) {
  SmallCalls calls(kRanks, kBytes / sizeof(float));
  calls.by_programs();
  calls.by_engines();
  case_program<kRanks, kBytes>(calls, count);
  case_engine<kRanks, kBytes>(calls, count);
}

}  // namespace
}  // namespace banyan

int main(int argument_count, char** arguments) {
  const long count = argument_count == 2 ? std::strtol(arguments[1], nullptr, 10) : 0;
  if (count <= 0) {
    std::fprintf(stderr, "usage: instructions CALLS\n");
    return 2;
  }
  {
    banyan::SmallCalls one(1, 1);
    one.by_door();
    one.by_door();
    banyan::case_door(one, count);
  }
  banyan::both<2, 4>(count);
  banyan::both<2, 256>(count);
  banyan::both<2, 4096>(count);
  banyan::both<4, 4>(count);
  banyan::both<8, 4>(count);
  return 0;
}
