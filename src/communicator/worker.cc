// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/worker.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "compression/codecs.h"
#include "src/base/bell.h"
#include "src/base/copy.h"
#include "src/base/float_mode.h"
#include "src/communicator/quick_call.h"
#include "src/cuda/device_memory.h"

namespace banyan {
namespace {

// Looks at the ranks on this host, which are the ones that a rank can keep from running.
Patience patience_of(const Links& links, Engine& engine) {
  auto core = Patience::Core::kOwn;
  int ranks_per_core = 1;
  for (int peer = 0; peer < links.size; ++peer) {
    if (peer == links.rank || !links.peers[static_cast<size_t>(peer)].same_host) continue;
    const int shared = engine.transport_to(peer).ranks_per_core();
    if (shared != 1) core = Patience::Core::kShared;
    ranks_per_core = std::max(ranks_per_core, shared);
  }
  return Patience(core, Patience::kManyLooks, Patience::switch_time(), ranks_per_core);
}

// Names a call: "allreduce of 1024 float32, sum, call 7".
std::string text_of(const Problem& problem, uint32_t number) {
  const Collective collective = problem.collective;
  std::string text(name_of(collective));
  if (is_message(collective))
    return fmt::format("{} of {} {} {} rank {}, message {}", text, problem.count,
                       name_of(problem.type), collective == Collective::kSend ? "to" : "from",
                       problem.root, number);
  const bool moves = collective != Collective::kBarrier && collective != Collective::kFinalize &&
                     collective != Collective::kSplit;
  if (moves && problem.recv_counts.empty())
    text += fmt::format(" of {} {}", problem.count, name_of(problem.type));
  else if (moves)
    text += fmt::format(" of {}", name_of(problem.type));
  if (reduces(collective)) text += fmt::format(", {}", name_of(problem.op));
  return fmt::format("{}, call {}", text, number);
}

void limit(Execution& execution, double timeout_s, std::string_view from) {
  execution.deadline = deadline_after(timeout_s);
  execution.timeout_s = timeout_s;
  execution.timeout_from = from;
}

// As plans number them in signatures.
std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
  return names;
}

}  // namespace

Worker::Worker(const Surroundings& around, std::vector<std::unique_ptr<Transport>> transports,
               std::vector<int> routes)
    : around_(around),
      engine_(std::move(transports), std::move(routes), best_kernels()),
      plans_(around.links.rank, around.links.size, around.medium, around.settings.rules,
             around.settings.log, PlanCache::kMostPlans, PlanCache::kMostBytes, &around.hierarchy,
             around.measured, around.settings.codec_times()),
      messages_out_(static_cast<size_t>(around.links.size)),
      messages_in_(static_cast<size_t>(around.links.size)),
      patience_(patience_of(around.links, engine_)),
      places_(around.failure.board().places(around.links.rank)) {
  if (trace_.on()) engine_.tell(trace_);
  use_codecs(codecs());
  if (may_have_windows()) plans_.use_peers();
  if (may_have_windows_inside()) plans_.use_windows_inside();
}

Worker::~Worker() {
  for (const auto& [memory, bytes] : plain_memory_) munmap(memory, bytes);
}

Result<Operation*> Worker::prepare(const std::shared_ptr<Plan>& plan, const Call& call) {
  const MemoryKind memory = plan->problem.memory;
  if (!engine_.serves(memory))
    return Status(Code::kUnsupported, fmt::format("{} memory: no transport of this communicator "
                                                  "carries it to all peers, or nothing here works "
                                                  "on it",
                                                  name_of(memory)));
  const bool staged = plan->problem.staging.any();
  if (staged)
    if (const Status opened = open_devices(plan->problem, call); !opened.ok())
      return give_up(opened.code() == Code::kCuda ? Code::kCuda : Code::kSystem,
                     unable(opened.message()));
  engine_.make_room(prepared_ + 1);
  std::unique_ptr<Operation> operation;
  if (plan->idle.empty()) {
    operation = std::make_unique<Operation>(*plan);
  } else {
    operation = std::move(plan->idle.back());
    plan->idle.pop_back();
  }
  const uint64_t needed = plan->schedule.scratch_size;
  operation->scratch = scratch_of(*plan).take(needed);
  if (needed != 0 && operation->scratch == nullptr) {
    plan->idle.push_back(std::move(operation));
    return give_up(fmt::format("{} bytes of working memory cannot be had", needed));
  }
  operation->plan = plan;
  operation->execution.gate = call.gate;
  operation->execution.chance = call.chance;
  operation->execution.hook = call.hook;
  if (call.timeout_s > 0)
    limit(operation->execution, call.timeout_s, "timeout_s of the call");
  else
    limit(operation->execution, around_.settings.timeout_s, around_.settings.timeout_from);
  ++prepared_;
  return operation.release();
}

void Worker::launch(Operation* operation, const Call& call) noexcept {
  --prepared_;
  const Plan& plan = *operation->plan;
  const Problem& problem = plan.problem;
  Arithmetic arithmetic = arithmetic_of(problem);
  arithmetic.scalar = call.scalar;
  const Spaces spaces(static_cast<const std::byte*>(call.send),
                      static_cast<std::byte*>(output_of(problem, call)), operation->scratch,
                      call.left);
  operation->launched = true;
  engine_.start(operation->execution, spaces, arithmetic, next_envelope(plan),
                is_message(problem.collective) ? Lane::kMessage : Lane::kCollective);
}

Result<Operation*> Worker::start(const std::shared_ptr<Plan>& plan, const Call& call) {
  Result<Operation*> operation = prepare(plan, call);
  if (!operation.ok()) return operation;
  if (trace_.calls()) trace_.begins(**operation, next_number(plan->problem));
  launch(*operation, call);
  return operation;
}

// Another rank may have to decide, and may not answer. After the time that a call may take, and not
// before others have lost patience, this rank decides alone, so that the failure stands then in any
// case.
Status Worker::give_up(Code code, std::string_view text) {
  const Verdict verdict{code, rank(), std::string(text)};
  const TimePoint deadline =
      deadline_after(std::max(around_.settings.timeout_s, Monitor::kMostPatienceSeconds));
  report(verdict);
  while (!around_.failure.failed()) {
    sleep(1);
    if (Clock::now() >= deadline) around_.monitor.decide_alone(verdict);
  }
  return around_.failure.status();
}

Status Worker::give_up(std::string_view why) {
  return give_up(Code::kSystem, unable(why));
}

std::string Worker::unable(std::string_view why) const {
  return fmt::format("rank {} cannot take part in a call: {}", rank(), why);
}

// But for the scalar.
Arithmetic Worker::arithmetic_of(const Problem& problem) const {
  return {problem.type, problem.op, problem.op == ReduceOp::kAvg ? around_.links.size : 1, {}};
}

// Without the length of a message.
Envelope Worker::next_envelope(const Plan& plan) {
  const Problem& problem = plan.problem;
  Envelope envelope;
  envelope.epoch = around_.links.epoch;
  envelope.signature = plan.signature;
  envelope.call = next_number(problem)++;
  return envelope;
}

// Messages to and from each peer are counted by themselves.
uint32_t& Worker::next_number(const Problem& problem) {
  if (!is_message(problem.collective)) return next_call_;
  auto& numbers = problem.collective == Collective::kSend ? messages_out_ : messages_in_;
  return numbers[static_cast<size_t>(problem.root)];
}

void Worker::finish(Operation* operation) {
  std::unique_ptr<Operation> owned(operation);
  if (std::exchange(owned->launched, false)) {
    if (trace_.calls()) trace_.ends(*owned);
  } else {
    --prepared_;
  }
  if (owned->plan->problem.staging.any() && copies_ != nullptr) tell_news_of_windows();
  owned->execution.gate = nullptr;
  owned->execution.hook = nullptr;
  const std::shared_ptr<Plan> plan = std::move(owned->plan);
  scratch_of(*plan).give_back(owned->scratch, plan->schedule.scratch_size);
  owned->scratch = nullptr;
  try {
    plan->idle.push_back(std::move(owned));
  } catch (const std::bad_alloc&) {
    return;  // the next use makes its own
  }
}

// Nothing is under way, so scratch may move.
std::unique_ptr<QuickCall> Worker::prepare_quick(const std::shared_ptr<Plan>& plan) {
  const Problem& problem = plan->problem;
  if (problem.op == ReduceOp::kPreMulSum || trace_.on()) return nullptr;
  const Lane lane = is_message(problem.collective) ? Lane::kMessage : Lane::kCollective;
  const Envelope envelope{0, around_.links.epoch, 0, plan->signature};
  auto program = Program::lower(plan->schedule, arithmetic_of(problem), envelope, engine_, lane);
  if (!program) return nullptr;
  const size_t lines = plan->schedule.scratch_size / sizeof(CacheLine) + 1;
  if (lines > quick_scratch_.size()) quick_scratch_.resize(lines);
  auto operation = std::make_unique<Operation>(*plan);
  return std::make_unique<QuickCall>(QuickCall{plan, std::move(*program), std::move(operation),
                                               next_number(problem), output_in_send(problem)});
}

void Worker::hand_over(QuickCall& quick) {
  limit(quick.operation->execution, around_.settings.timeout_s, around_.settings.timeout_from);
  quick.program.hand_over(engine_, quick.operation->execution);
}

bool Worker::settled() const {
  return std::all_of(engine_.transports().begin(), engine_.transports().end(),
                     [](const auto& transport) { return transport->settled(); });
}

// A verdict about a later call must not spoil an earlier one whose last messages are here or on
// their way. So what can still move moves, and only then the operations fail. Where ranks disagree
// nobody is lost, and those that are late with an earlier call may have to wait for a core.
Result<bool> Worker::turn() {
  constexpr double kGraceSeconds = 0.002, kGraceOfSparedSeconds = 1;
  if (around_.failure.aborted()) return around_.failure.status();
  const DefaultFloatMode mode;
  Trouble found;
  Result<bool> moved = engine_.progress(found);
  if (!moved.ok())
    found = {moved.status().code(), -1, {}, {}, std::string(moved.status().message())};
  if (found) trouble(found);
  const bool failed = around_.failure.failed();
  if (found && found.code != Code::kMismatch)
    return failed ? Result<bool>(around_.failure.status()) : Result<bool>(true);
  if (*moved && said_waiting_) {
    around_.failure.board().set_waiting_for(rank(), -1);
    said_waiting_ = false;
  }
  if (!failed) return moved;
  const bool first = grace_ends_ == TimePoint();
  if (first) spared_before_ = around_.failure.verdict().spares_calls_before;
  if (*moved || first) {
    const bool spared = engine_.has_call_before(spared_before_);
    grace_ends_ = deadline_after(spared ? kGraceOfSparedSeconds : kGraceSeconds);
  }
  const TimePoint now = Clock::now();
  if (now < engine_.deadline() && (*moved || now < grace_ends_)) return *moved;
  return around_.failure.status();
}

void Worker::check_deadline(TimePoint now) {
  if (now >= engine_.deadline()) time_out();
}

// The thread that serves may sleep without an end, and is to see when whoever decides says nothing.
void Worker::report(const Verdict& verdict) {
  if (around_.monitor.report(verdict)) ring(around_.bells.service);
}

void Worker::trouble(const Trouble& found) {
  Verdict verdict{found.code, -1, found.text};
  const int peer = found.peer;
  const std::string why = found.text.empty() ? "" : ": " + found.text;
  if (found.code == Code::kMismatch) {
    const Envelope& mine = found.expected;
    const Envelope& theirs = found.seen;
    if (mine.signature.collective != Collective::kSend)  // whose messages have numbers of their own
      verdict.spares_calls_before = std::min(mine.call, theirs.call);
    // Where arguments are not compared, signatures are empty and do not know the collective.
    const auto named = [&](const Envelope& of) {
      return around_.settings.environment.check
                 ? fmt::format(" ({})", text_of(of.signature.collective))
                 : std::string();
    };
    if (mine.call != theirs.call) {
      verdict.text =
          fmt::format("collective differs: rank {} is in call {}{}, rank {} in call {}{}", rank(),
                      mine.call, named(mine), peer, theirs.call, named(theirs));
    } else if (mine.signature == theirs.signature) {
      verdict.text = fmt::format("count differs: rank {} expects {} bytes, rank {} sends {}{}",
                                 rank(), mine.bytes, peer, theirs.bytes, named(mine));
    } else {
      verdict.text = describe_difference(mine.signature, rank(), theirs.signature, peer, mine.call,
                                         algorithm_names());
    }
  } else if (found.code == Code::kPeerLost) {
    verdict.failed_rank = peer;
    verdict.text = fmt::format("rank {} is lost{}", peer, why);
  } else if (found.code == Code::kCuda) {
    verdict.failed_rank = rank();
    verdict.text = fmt::format("rank {} cannot reach the memory of a GPU{}", rank(), why);
  } else if (peer >= 0) {
    verdict.text =
        fmt::format("{} between rank {} and rank {}{}", describe(found.code), rank(), peer, why);
  }
  report(verdict);
}

void Worker::look_around() {
  const DefaultFloatMode mode;
  if (!around_.settings.environment.check) return;
  if (const Trouble found = engine_.find_other_call()) trouble(found);
}

void Worker::time_out() {
  const int peer = engine_.waiting_for();
  int culprit = peer;
  if (peer >= 0) {
    std::vector<Waiting> said;
    for (int other = 0; other < around_.links.size; ++other)
      said.push_back(around_.failure.board().waiting_for(other));
    culprit = culprit_of(rank(), peer, said);
  }
  const Execution& late = *engine_.most_urgent();
  const double waited =
      late.timeout_s + std::chrono::duration<double>(Clock::now() - late.deadline).count();
  std::string text = fmt::format(
      "timeout: {} has not ended after {:.3g} s; the limit of {:.6g} s is from {}",
      text_of(*late.problem, late.envelope().call), waited, late.timeout_s, late.timeout_from);
  if (culprit >= 0) text += fmt::format("; rank {} waits for rank {}", rank(), culprit);
  report({Code::kTimeout, culprit, text});
}

std::string_view Worker::waker_of(std::span<const pollfd> waited) const {
  const auto ready = std::find_if(waited.begin(), waited.end(),
                                  [](const pollfd& entry) { return entry.revents != 0; });
  if (ready == waited.end()) return "the clock";
  const auto which = static_cast<size_t>(ready - waited.begin());
  return which == 0 ? "the bell" : engine_.name_of_armed(which - 1);
}

// A transport may sum what has come when it is asked to be armed.
void Worker::sleep(int most_ms) {
  const DefaultFloatMode mode;
  sleep_descriptors_.clear();
  sleep_descriptors_.push_back({around_.bells.caller.get(), POLLIN, 0});
  const bool armed = !around_.failure.failed();
  if (armed && engine_.arm(sleep_descriptors_)) {
    say_waiting();
    places_.leave();
    const TimePoint begin = trace_.calls() ? Clock::now() : TimePoint();
    poll(sleep_descriptors_.data(), sleep_descriptors_.size(), most_ms);
    if (trace_.calls()) trace_.slept(begin, engine_.waiting_for(), waker_of(sleep_descriptors_));
    places_.arrive();
  }
  if (armed) engine_.disarm();
  quiet(around_.bells.caller);
}

void Worker::rest() {
  pollfd bell{around_.bells.caller.get(), POLLIN, 0};
  places_.leave();
  poll(&bell, 1, -1);
  places_.arrive();
  quiet(around_.bells.caller);
}

void Worker::wake() const {
  ring(around_.bells.caller);
}

// For the ranks that look for whom everybody waits. It stands until something moves.
void Worker::say_waiting() {
  around_.failure.board().set_waiting_for(rank(), engine_.waiting_for());
  said_waiting_ = true;
}

Status Worker::depart(TimePoint deadline) {
  for (const auto& transport : engine_.transports()) {
    Status status = transport->flush();
    Wait wait = this->wait();
    while (status.code() == Code::kBusy) {
      if (Clock::now() >= deadline)
        report({Code::kTimeout, -1,
                fmt::format("timeout: what was sent did not leave within {:.6g} s, the limit from "
                            "{}",
                            around_.settings.timeout_s, around_.settings.timeout_from)});
      const Result<bool> moved = turn();
      BANYAN_TRY(moved.status());
      if (*moved) {
        wait.moved();
      } else if (!wait.linger()) {
        sleep(1);
        wait.slept();
      }
      status = transport->flush();
    }
    BANYAN_TRY(status);
  }
  around_.monitor.say_goodbye();
  return {};
}

Result<void*> Worker::allocate(size_t bytes) {
  const TimePoint deadline = deadline_after(around_.settings.timeout_s);
  for (const auto& transport : engine_.transports()) {
    const Result<std::byte*> memory = transport->allocate(bytes, deadline);
    if (memory.ok()) {
      transport_memory_[*memory] = transport.get();
      return static_cast<void*>(*memory);
    }
    if (memory.status().code() != Code::kUnsupported) return memory.status();
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t rounded = (bytes + page - 1) / page * page;
  void* memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Status(Code::kSystem, fmt::format("{} bytes of memory cannot be had", bytes));
  plain_memory_[memory] = rounded;
  return memory;
}

Status Worker::release(void* memory) {
  if (const auto found = transport_memory_.find(memory); found != transport_memory_.end()) {
    Transport* transport = found->second;
    transport_memory_.erase(found);
    return transport->release(static_cast<std::byte*>(memory));
  }
  const auto found = plain_memory_.find(memory);
  if (found == plain_memory_.end())
    return {Code::kInvalidArgument,
            fmt::format("memory {} is not from banyan_mem_alloc of this communicator", memory)};
  munmap(found->first, found->second);
  plain_memory_.erase(found);
  return {};
}

}  // namespace banyan
