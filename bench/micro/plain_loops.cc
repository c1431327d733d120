// SPDX-License-Identifier: Apache-2.0

#include "bench/micro/plain_loops.h"

#include <algorithm>
#include <iterator>

namespace banyan {

extern const PlainLoops plain_baseline;
extern const PlainLoops plain_avx2;
extern const PlainLoops plain_avx512;
extern const PlainLoops plain_neon;

std::span<const PlainLoops* const> available_plain_loops() {
  static constexpr const PlainLoops* kLoops[] = {
    &plain_baseline,
#if defined(__x86_64__)
    &plain_avx2,
    &plain_avx512,
#elif defined(__aarch64__)
    &plain_neon,
#endif
  };
  return std::span(kLoops).first(std::min(std::size(kLoops), available_kernels().size()));
}

}  // namespace banyan
