// Local work that ends later, in any order.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <random>
#include <vector>

#include "src/engine/local_work.h"

namespace banyan::test {

// Runs steps with the host's kernels and the toy codecs, some of them later than they were asked
// for.
class DelayedWork final : public LocalWork {
 public:
  DelayedWork(int later_every, unsigned seed);

  End run(const LocalStep& step, uint64_t cookie) override;
  size_t poll(std::span<End> ends) override;
  bool arm() override { return pending_.empty(); }
  void disarm() override {}
  int descriptor() const override { return -1; }
  void abandon() override { pending_.clear(); }

 private:
  struct Pending {
    const Step* step;
    Spaces spaces;
    Arithmetic arithmetic;
    uint64_t message_bytes;
    std::span<const Coding> codings;
    Chance chance;
    uint64_t cookie;
  };

  HostWork host_;
  int later_every_;
  std::mt19937 random_;
  std::vector<Pending> pending_;
};

}  // namespace banyan::test
