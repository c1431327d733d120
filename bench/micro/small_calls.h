// Makes small allreduces on ranks that share one thread. Each goes on as far as it can, in turn:
// nobody waits, so what is counted or timed is work, and the same work each time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/banyan.h"
#include "src/communicator/quick_call.h"

namespace banyan {

// Otherwise the program ends with these words.
void need(bool ok, const char* what);

class SmallCalls {
 public:
  // A communicator of that many ranks, all in this process; sums of `count` floats.
  SmallCalls(int ranks, size_t count);
  SmallCalls(const SmallCalls&) = delete;
  SmallCalls& operator=(const SmallCalls&) = delete;
  ~SmallCalls();

  // One call on all ranks, each by its program, or each by its engine.
  void by_programs();
  void by_engines();
  // Through banyan.h; with one rank only, because it returns when the call is done.
  void by_door();
  // What the first call of so many floats makes before it begins, on one of several ranks.
  void prepare(size_t count);
  // Counts the steps of one rank.
  size_t steps() const { return ranks_.front().plan->schedule.steps.size(); }

 private:
  struct Rank {
    banyan_comm_t comm = nullptr;
    std::optional<Driver> driver;  // where several ranks go on in turn
    std::shared_ptr<Plan> plan;
    std::unique_ptr<QuickCall> quick;
    Operation* operation = nullptr;
    std::vector<float> input, output;
  };

  size_t count_;
  std::vector<Rank> ranks_;
};

}  // namespace banyan
