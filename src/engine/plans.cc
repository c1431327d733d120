// SPDX-License-Identifier: Apache-2.0

#include "src/engine/plans.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/choice/compression.h"
#include "algorithms/choice/peer_choice.h"
#include "algorithms/peers.h"
#include "algorithms/staging.h"

namespace banyan {
namespace {

// FNV-1a over 64-bit words, with a final mix; good enough for a table, not against an adversary.
class Digest {
 public:
  void add(uint64_t word) { state_ = (state_ ^ word) * 0x100000001b3ULL; }
  void add(const std::vector<uint64_t>& words) {
    add(words.size());
    for (const uint64_t word : words) add(word);
  }
  uint64_t value() const { return (state_ ^ (state_ >> 29)) * 0xbf58476d1ce4e5b9ULL; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ULL;
};

void add(Digest& digest, const CodecChoice& choice) {
  digest.add(uint64_t{choice.codec} | uint64_t{choice.stochastic} << 8 |
             uint64_t{choice.half} << 9 | uint64_t{choice.reselects} << 10);
  digest.add(std::bit_cast<uint64_t>(choice.parameter));
}

void add(Digest& digest, const Compression& compression) {
  for (const CodecChoice& choice : {compression.intra, compression.inter, compression.alone})
    add(digest, choice);
  digest.add(compression.least_bytes);
  digest.add(compression.seed);
}

void add(Digest& digest, const Parameters& parameters) {
  digest.add(parameters.segment);
  digest.add(uint64_t{static_cast<uint8_t>(parameters.intra)} |
             uint64_t{static_cast<uint8_t>(parameters.inter)} << 8 |
             uint64_t{parameters.rails} << 16);
  add(digest, parameters.intra_codec);
  add(digest, parameters.inter_codec);
  for (size_t i = 0; i < parameters.dimensions.size() && parameters.dimensions[i] != 0; ++i)
    digest.add(parameters.dimensions[i]);
}

// Parameters are asked for with an algorithm only.
bool same_wish(const Plan& plan, int wanted, const Parameters& parameters) {
  return plan.wanted == wanted && (wanted < 0 || plan.parameters == parameters);
}

size_t hash_of(const Problem& problem, int wanted, const Parameters& parameters) {
  Digest digest;
  digest.add(uint64_t{static_cast<uint8_t>(problem.collective)} |
             uint64_t{static_cast<uint8_t>(problem.type)} << 8 |
             uint64_t{static_cast<uint8_t>(problem.op)} << 16 | uint64_t{problem.in_place} << 24 |
             uint64_t{problem.invariant} << 25 | uint64_t{problem.keeps_left} << 26 |
             uint64_t{problem.staging.input} << 27 | uint64_t{problem.staging.output} << 28 |
             uint64_t{problem.staging.left} << 29 | uint64_t{static_cast<uint8_t>(wanted)} << 32 |
             uint64_t{static_cast<uint16_t>(problem.root)} << 40 |
             uint64_t{static_cast<uint8_t>(problem.memory)} << 56);
  digest.add(problem.count);
  digest.add(problem.staging.codecs);
  add(digest, problem.compression);
  if (!problem.recv_counts.empty()) {
    digest.add(problem.send_counts);
    digest.add(problem.send_displacements);
    digest.add(problem.recv_counts);
    digest.add(problem.recv_displacements);
  }
  if (wanted >= 0) add(digest, parameters);
  return digest.value();
}

size_t bytes_of(const Schedule& schedule) {
  return schedule.steps.size() * (sizeof(Step) + 16) + schedule.successors.size() * 4 +
         schedule.ports.size() * 64;
}

}  // namespace

CallSignature signature_of(const Problem& problem, int wanted, const Parameters& parameters) {
  CallSignature signature;
  signature.collective =
      problem.collective == Collective::kRecv ? Collective::kSend : problem.collective;
  signature.type = problem.type;
  signature.count = problem.count;
  signature.algorithm = static_cast<uint8_t>(wanted + 1);
  if (problem.memory == MemoryKind::kDevice) signature.memory = MemoryKind::kDevice;
  if (reduces(problem.collective)) signature.op = problem.op;
  if (!is_message(problem.collective)) signature.root = static_cast<uint16_t>(problem.root);
  // All ranks share these lists. Those of alltoallv are each rank's own, and its messages are
  // checked pair by pair.
  if (problem.collective == Collective::kAllgatherv ||
      problem.collective == Collective::kReduceScatterv) {
    Digest digest;
    digest.add(problem.recv_counts);
    signature.count = digest.value();
  }
  if (wanted >= 0 && parameters != Parameters()) {
    Digest digest;
    digest.add(signature.count);
    add(digest, parameters);
    signature.count = digest.value();
    signature.algorithm |= kWithParameters;
  }
  return signature;
}

namespace {

// What the number of the top level's codec does not say goes into the count.
void sign_codecs(CallSignature& signature, const Parameters& parameters,
                 const Compression& compression) {
  if (!parameters.encodes()) return;
  const CodecChoice& top = parameters.inter_codec;
  signature.codec = top.codec;
  if (top == CodecChoice{.codec = top.codec} && parameters.intra_codec.is_exact()) return;
  Digest digest;
  digest.add(signature.count);
  add(digest, parameters.intra_codec);
  add(digest, top);
  digest.add(compression.seed);
  signature.count = digest.value();
  signature.algorithm |= kWithParameters;
}

}  // namespace

Schedule PlanCache::staged(Schedule schedule, const Problem& problem) const {
  if (!problem.staging.any()) return schedule;
  return stage(schedule, problem.staging, kStagedPiece, direct_from_);
}

// Codecs that the parameters of the call number go before those that it accepts.
Choice PlanCache::choice_of(const Problem& problem, int wanted,
                            const Parameters& parameters) const {
  Choice choice = wanted >= 0 ? Choice{wanted, "named by the call", -1, parameters}
                              : choose(problem, size_, medium_, rules_, hierarchy_, measured_);
  if (!choice.parameters.encodes())
    choice = with_codecs(problem, size_, medium_, hierarchy_, measured_, std::move(choice),
                         codec_times_);
  if (windows_inside_) return for_peers_inside(problem, size_, *hierarchy_, std::move(choice));
  return by_peers_ ? for_peers(problem, size_, rules_, wanted, std::move(choice)) : choice;
}

std::shared_ptr<Plan> PlanCache::build(const Problem& problem, int wanted,
                                       const Parameters& parameters) const {
  auto plan = std::make_shared<Plan>();
  plan->problem = problem;
  plan->wanted = wanted;
  plan->parameters = parameters;
  if (problem.check) plan->signature = signature_of(problem, wanted, parameters);
  if (is_message(problem.collective)) {
    plan->schedule = staged(build_message(problem), problem);
    return plan;
  }
  plan->choice = choice_of(problem, wanted, parameters);
  if (problem.check) sign_codecs(plan->signature, plan->choice.parameters, problem.compression);
  Group group = Group::everyone(size_, rank_, hierarchy_, plan->choice.parameters);
  group.codecs = codecs_;
  group.has_windows_inside = windows_inside_;
  const Algorithm& algorithm = algorithms()[static_cast<size_t>(plan->choice.algorithm)];
  plan->schedule = staged(build_schedule(problem, group, algorithm), problem);
  if (by_peers_ && goes_by_peers(problem, size_, rules_, wanted, plan->choice))
    plan->schedule = with_peers(plan->schedule, problem, group);
  return plan;
}

// Once: a plan that was made for a call that is not told may serve one that is.
void PlanCache::tell_choice(Plan& plan) const {
  plan.told = true;
  if (is_message(plan.problem.collective)) return;
  BANYAN_LOG(log_, Subsystem::kPlan, LogLevel::kInfo, "{} of {} x {}: {}, {} steps, by the {}",
             name_of(plan.problem.collective), plan.problem.count, name_of(plan.problem.type),
             text_of(plan.choice.algorithm, plan.choice.parameters), plan.schedule.steps.size(),
             plan.choice.because);
}

std::shared_ptr<Plan> PlanCache::find_or_build(const Problem& problem, int wanted,
                                               const Parameters& parameters) {
  std::shared_ptr<Plan> plan = look_up(problem, wanted, parameters);
  if (tells_ && !plan->told) tell_choice(*plan);
  return plan;
}

std::shared_ptr<Plan> PlanCache::look_up(const Problem& problem, int wanted,
                                         const Parameters& parameters) {
  if (!order_.empty() && same_wish(*order_.front(), wanted, parameters) &&
      order_.front()->problem == problem)
    return order_.front();
  const size_t hash = hash_of(problem, wanted, parameters);
  const auto [first, last] = index_.equal_range(hash);
  for (auto found = first; found != last; ++found) {
    const Order::iterator place = found->second;
    if (!same_wish(**place, wanted, parameters) || !((*place)->problem == problem)) continue;
    order_.splice(order_.begin(), order_, place);
    return order_.front();
  }
  order_.push_front(build(problem, wanted, parameters));
  bytes_ += bytes_of(order_.front()->schedule);
  index_.emplace(hash, order_.begin());
  while (order_.size() > 1 && (order_.size() > most_plans_ || bytes_ > most_bytes_)) {
    const Plan& oldest = *order_.back();
    const auto [begin, end] =
        index_.equal_range(hash_of(oldest.problem, oldest.wanted, oldest.parameters));
    for (auto entry = begin; entry != end; ++entry) {
      if (entry->second != std::prev(order_.end())) continue;
      index_.erase(entry);
      break;
    }
    bytes_ -= bytes_of(oldest.schedule);
    order_.pop_back();
  }
  return order_.front();
}

void PlanCache::use_rules(Rules rules) {
  rules_ = std::move(rules);
  clear();
}

void PlanCache::use_codecs(std::span<const Codec> codecs) {
  codecs_ = codecs;
  clear();
}

void PlanCache::use_direct_messages(std::vector<uint64_t> direct_from) {
  direct_from_ = std::move(direct_from);
  clear();
}

void PlanCache::clear() {
  index_.clear();
  order_.clear();
  bytes_ = 0;
}

}  // namespace banyan
