// SPDX-License-Identifier: Apache-2.0

#include "tests/support/delayed_work.h"

#include <algorithm>

#include "tests/support/toy_codec.h"

namespace banyan::test {

DelayedWork::DelayedWork(int later_every, unsigned seed)
    : host_(best_kernels()), later_every_(later_every), random_(seed) {
  host_.use_codecs(toy_codecs());
}

LocalWork::End DelayedWork::run(const LocalStep& step, uint64_t cookie) {
  if (random_() % static_cast<unsigned>(later_every_) != 0) return host_.run(step, cookie);
  pending_.push_back({&step.step, step.spaces, step.arithmetic, step.message_bytes, step.codings,
                      step.chance, cookie});
  return {cookie, Outcome::kPending, 0};
}

size_t DelayedWork::poll(std::span<End> ends) {
  std::shuffle(pending_.begin(), pending_.end(), random_);
  const size_t count = std::min(ends.size(), random_() % (pending_.size() + 1));
  for (size_t i = 0; i < count; ++i) {
    const Pending& last = pending_.back();
    ends[i] = host_.run(
        {*last.step, last.spaces, last.arithmetic, last.message_bytes, last.codings, last.chance},
        last.cookie);
    pending_.pop_back();
  }
  return count;
}

}  // namespace banyan::test
