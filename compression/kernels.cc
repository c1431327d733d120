// The choices that callers make without looking.
// SPDX-License-Identifier: Apache-2.0

#include "compression/kernels.h"

#include "compression/codecs.h"

namespace banyan {

const Kernels& best_kernels() {
  return *available_kernels().back();
}

std::span<const Codec> codecs() {
  return best_kernels().codecs;
}

}  // namespace banyan
