// SPDX-License-Identifier: Apache-2.0

#include "src/engine/places.h"

#include <sched.h>

namespace banyan {

void Places::arrive() {
  core_ = static_cast<uint32_t>(sched_getcpu() + 1);
  const uint32_t word = core_ << 1 | kRunsBit;
  if (own().load(std::memory_order_relaxed) != word) own().store(word, std::memory_order_relaxed);
}

}  // namespace banyan
