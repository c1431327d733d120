// SPDX-License-Identifier: Apache-2.0

#include "src/engine/trace.h"

#include <fmt/format.h>

#include <new>
#include <string>

#include "algorithms/algorithms.h"
#include "src/engine/plans.h"

namespace banyan {
namespace {

double microseconds_since(TimePoint begin) {
  return static_cast<double>(nanoseconds_since(begin)) / 1000;
}

// Messages to and from each rank are numbered by themselves.
std::string_view kind_of(bool message) {
  return message ? "message" : "call";
}

bool carries_data(Collective collective) {
  return collective != Collective::kBarrier && collective != Collective::kFinalize &&
         collective != Collective::kSplit;
}

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// "allreduce of 1024 float32 sum, in place", "send of 3 int8 to rank 1", "barrier".
std::string text_of(const Problem& problem) {
  std::string text(name_of(problem.collective));
  if (has_blocks_of_own_length(problem.collective)) {
    text += fmt::format(" of {} blocks of {}", problem.recv_counts.size(), name_of(problem.type));
  } else if (carries_data(problem.collective)) {
    text += fmt::format(" of {} {}", problem.count, name_of(problem.type));
  }
  if (reduces(problem.collective)) text += fmt::format(" {}", name_of(problem.op));
  if (problem.collective == Collective::kSend) text += fmt::format(" to rank {}", problem.root);
  if (problem.collective == Collective::kRecv) text += fmt::format(" from rank {}", problem.root);
  if (has_root(problem.collective)) text += fmt::format(", root {}", problem.root);
  if (problem.in_place) text += ", in place";
  return text;
}

// Whoever has nobody to exchange messages with has no algorithm.
std::string way_of(const Plan& plan) {
  if (is_message(plan.problem.collective) || plan.schedule.ports.empty()) return {};
  return fmt::format(", by {}", banyan::text_of(plan.choice.algorithm, plan.choice.parameters));
}

}  // namespace

template <typename Make>
void Trace::tell(Subsystem subsystem, const Make& make) const noexcept {
  try {
    log_.write(subsystem, LogLevel::kTrace, make());
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Trace::begins(Operation& operation, uint32_t number) const noexcept {
  operation.began = Clock::now();
  const Plan& plan = *operation.plan;
  tell(Subsystem::kCall, [&] {
    return fmt::format("{} {} begins: {}{}", kind_of(is_message(plan.problem.collective)), number,
                       text_of(plan.problem), way_of(plan));
  });
}

void Trace::ends(const Operation& operation) const noexcept {
  tell(Subsystem::kCall, [&] {
    return fmt::format("{} {} {} after {:.1f} us",
                       kind_of(is_message(operation.plan->problem.collective)),
                       operation.execution.envelope().call,
                       operation.execution.cancelled() ? "is given up" : "ends",
                       microseconds_since(operation.began));
  });
}

void Trace::copied(const Problem& receive) const noexcept {
  tell(Subsystem::kCall, [&] {
    return fmt::format("message to oneself is copied: {} {}", receive.count, name_of(receive.type));
  });
}

void Trace::moved(const Transfer& transfer, std::string_view transport,
                  Passage passage) const noexcept {
  const bool sent = transfer.direction == Direction::kSend;
  tell(Subsystem::kNet, [&] {
    return fmt::format("{} {}: {} bytes {} rank {} by {}{}{}",
                       kind_of(transfer.lane == Lane::kMessage), transfer.envelope.call,
                       transfer.envelope.bytes, sent ? "to" : "from", transfer.peer, transport,
                       passage == Passage::kOnly ? "" : ", ", banyan::text_of(passage));
  });
}

void Trace::slept(TimePoint since, int peer, std::string_view waker) const noexcept {
  tell(Subsystem::kCall, [&] {
    return fmt::format(
        "slept {:.1f} us, waiting for {}; woken by {}", microseconds_since(since),
        peer < 0 ? std::string("no rank in particular") : fmt::format("rank {}", peer), waker);
  });
}

}  // namespace banyan
