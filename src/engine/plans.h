// Schedules, built once for a call signature and kept: what a call costs only the first time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "algorithms/choice/codec_times.h"
#include "algorithms/choice/select.h"
#include "algorithms/problem.h"
#include "algorithms/schedule.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/signature.h"
#include "src/engine/engine.h"

namespace banyan {

struct Operation;

// A call without its addresses, ready to run.
struct Plan {
  Problem problem;
  int wanted = -1;          // the algorithm that the call asked for, -1: chosen
  Parameters parameters{};  // with which it asked for it
  Choice choice;            // meaningless for messages and groups of one
  Schedule schedule;
  CallSignature signature;
  std::vector<std::unique_ptr<Operation>> idle;  // to be used again
  bool told = false;                             // what was chosen is in the log
};

// One use of a plan, from its start to its end.
struct Operation {
  explicit Operation(const Plan& origin) : execution(origin.schedule) {
    execution.problem = &origin.problem;
  }

  std::shared_ptr<Plan> plan;  // owners: the cache, and operations and requests that use it
  Execution execution;
  std::byte* scratch = nullptr;
  bool launched = false;
  TimePoint began;  // where calls are traced

  bool done() const { return execution.done(); }
};

// The signature that all ranks must share for this problem.
CallSignature signature_of(const Problem& problem, int wanted, const Parameters& parameters = {});

// Least recently used plans go first once there are more than `most_plans` or their schedules take
// more than `most_bytes`. Not thread-safe.
class PlanCache {
 public:
  static constexpr size_t kMostPlans = 64;
  static constexpr size_t kMostBytes = size_t{2} << 20;

  // `hierarchy` is the communicator's, simplified(), and `measured` the network under it. A null
  // hierarchy is flat; a null network was not measured. Both outlive the cache, and so does what
  // calls by codecs took.
  PlanCache(int rank, int size, Medium medium, Rules rules, const Log& log = {},
            size_t most_plans = kMostPlans, size_t most_bytes = kMostBytes,
            const Hierarchy* hierarchy = nullptr, const MeasuredNetwork* measured = nullptr,
            std::span<const CodecTime> codec_times = {})
      : rank_(rank),
        size_(size),
        medium_(medium),
        rules_(std::move(rules)),
        log_(log),
        most_plans_(most_plans),
        most_bytes_(most_bytes),
        hierarchy_(hierarchy),
        measured_(measured),
        codec_times_(codec_times) {}

  std::shared_ptr<Plan> find_or_build(const Problem& problem, int wanted,
                                      const Parameters& parameters = {});
  // From now on calls may go by windows (peers.h): all ranks are on one host and know of GPUs.
  void use_peers() { by_peers_ = true; }
  // The same inside hosts, of which there are several.
  void use_windows_inside() { windows_inside_ = true; }
  // Says by peer from which length on messages go straight from and to the memory of GPUs
  // (staging.h). Nothing that was planned is kept.
  void use_direct_messages(std::vector<uint64_t> direct_from);
  // From now on, what is chosen is in the log, or not.
  void tell(bool wanted) { tells_ = wanted; }
  // That parameters number from now on; they outlive the cache. Nothing that was planned is kept.
  void use_codecs(std::span<const Codec> codecs);
  // From now on, for what is planned from now on: nothing that was planned before is kept.
  void use_rules(Rules rules);

 private:
  using Order = std::list<std::shared_ptr<Plan>>;  // most recently used first

  void clear();
  Choice choice_of(const Problem& problem, int wanted, const Parameters& parameters) const;
  void tell_choice(Plan& plan) const;
  std::shared_ptr<Plan> look_up(const Problem& problem, int wanted, const Parameters& parameters);
  Schedule staged(Schedule schedule, const Problem& problem) const;
  std::shared_ptr<Plan> build(const Problem& problem, int wanted,
                              const Parameters& parameters) const;

  int rank_;
  int size_;
  Medium medium_;
  Rules rules_;
  Log log_;
  size_t most_plans_;
  size_t most_bytes_;
  const Hierarchy* hierarchy_;
  const MeasuredNetwork* measured_;
  std::span<const CodecTime> codec_times_;
  std::span<const Codec> codecs_;
  bool tells_ = true;
  bool by_peers_ = false;
  bool windows_inside_ = false;
  std::vector<uint64_t> direct_from_;
  size_t bytes_ = 0;
  Order order_;
  std::unordered_multimap<size_t, Order::iterator> index_;  // by hash of all that was asked
};

}  // namespace banyan
