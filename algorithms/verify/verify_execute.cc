// Runs the schedules of all ranks, one step at a time, in an order drawn from a seed.
//
// A step is put into `ready_` when nothing keeps it from running, and nothing later can. So the
// draw is among all that could happen next; where those are many, among the latest. Between two
// ranks that exchange messages there is a channel with `slots` places. With no place, sender and
// receiver run as one.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <utility>

#include "algorithms/verify/verify_arithmetic.h"
#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

constexpr uint32_t kNone = 0xffffffff;

struct StepAt {
  int rank;
  uint32_t step;
};

struct Message {
  std::vector<Run> runs{};
  uint32_t sender = 0;    // the step, counted over all ranks
  uint32_t next = kNone;  // in its channel, or of those that are free
};

// In a cache line of its own: among millions, each touch is a miss.
struct alignas(64) Channel {
  int sender = -1;
  int receiver = -1;
  const uint32_t* send_steps = nullptr;
  const uint32_t* recv_steps = nullptr;
  uint32_t count = 0;  // of either
  uint32_t sent = 0;
  uint32_t received = 0;
  uint32_t send_step = kNone;  // the next one, when it waits for nothing more on its rank
  uint32_t recv_step = kNone;
  bool send_is_ready = false;  // the next one: in ready_, or taken from it and not yet run
  bool recv_is_ready = false;
  uint32_t waiting = 0;     // messages, `slots` at most
  uint32_t oldest = kNone;  // of them
  uint32_t newest = kNone;
};
static_assert(sizeof(Channel) == 64);

// What changes of a step.
struct Node {
  uint32_t waiting_for;
  int32_t channel = -1;  // -1: a local step
};

// Knows which ranks a step knows to have entered the call: its own, those known to the steps that
// it waits for, and those known to the sender of what it receives.
class Knowledge {
 public:
  Knowledge(size_t ranks, size_t steps)
      : ranks_(ranks), words_((ranks + 63) / 64), bits_(words_ * steps) {}

  void add(size_t step, int rank) {
    bits_[step * words_ + static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64);
  }
  void join(size_t step, size_t other) {
    for (size_t word = 0; word < words_; ++word)
      bits_[step * words_ + word] |= bits_[other * words_ + word];
  }
  // A rank that it does not know, -1 if it knows all.
  int missing(size_t step) const {
    for (size_t word = 0; word < words_; ++word) {
      const auto known = static_cast<size_t>(std::countr_one(bits_[step * words_ + word]));
      if (known != 64 && word * 64 + known < ranks_) return static_cast<int>(word * 64 + known);
    }
    return -1;
  }

 private:
  size_t ranks_;
  size_t words_;
  std::vector<uint64_t> bits_;
};

struct RankState {
  Layout layout;
  Memory scratch;
  size_t done = 0;
};

class Execution {
 public:
  Execution(const VerifiedCall& call, std::vector<Layout>& layouts, Symbols& symbols,
            const VerifyOptions& options);

  ScheduleFault run();

 private:
  const Step& step_at(StepAt at) const {
    return call_.schedules[static_cast<size_t>(at.rank)].steps[at.step];
  }
  RankState& state(int rank) { return states_[static_cast<size_t>(rank)]; }
  size_t global(StepAt at) const { return first_step_[static_cast<size_t>(at.rank)] + at.step; }

  // Where stands what the rank knows at its end: behind its steps.
  size_t end_of(int rank) const {
    return first_step_[static_cast<size_t>(rank)] +
           call_.schedules[static_cast<size_t>(rank)].steps.size();
  }

  Node& node(StepAt at) { return nodes_[global(at)]; }

  void connect();
  void connect(int rank, const Port& port);
  uint32_t next_send(const Channel& channel) const;
  uint32_t next_recv(const Channel& channel) const;
  // Whoever has a result of such a call has heard from everybody.
  bool results_tell() const {
    return call_.collective == Collective::kAllreduce && call_.problems.front().count != 0;
  }
  int unheard(StepAt at, const std::vector<Run>& runs) const;
  void consider(StepAt at);
  void consider(Channel& channel);
  StepAt draw();
  ScheduleFault run_step(StepAt at);
  ScheduleFault run_local(StepAt at);
  uint32_t new_message();
  ScheduleFault run_send(Channel& channel);
  ScheduleFault run_recv(Channel& channel);
  void complete(StepAt at);
  ScheduleFault read(StepAt at, Slice slice, std::vector<Run>& runs);
  ScheduleFault write(StepAt at, Slice slice, const std::vector<Run>& runs);
  ScheduleFault check_end();
  ScheduleFault check_finished() const;
  ScheduleFault stuck() const;

  const VerifiedCall& call_;
  SymbolArithmetic arithmetic_;
  size_t slots_;
  bool check_;
  bool by_content_;
  bool encodes_;  // something goes by a codec
  std::mt19937 random_;
  std::vector<RankState> states_;
  std::vector<size_t> first_step_;  // of each rank, counted over all ranks
  std::vector<Node> nodes_;         // by step, so counted
  std::vector<Channel> channels_;
  std::vector<Message> messages_;
  uint32_t free_ = kNone;  // of them
  std::vector<StepAt> ready_;
  std::vector<Run> left_, right_;       // of the step that runs
  std::optional<Knowledge> knowledge_;  // where what a rank has does not tell
};

bool is_synchronisation(Collective collective) {
  return collective == Collective::kBarrier || collective == Collective::kFinalize ||
         collective == Collective::kSplit;
}

Execution::Execution(const VerifiedCall& call, std::vector<Layout>& layouts, Symbols& symbols,
                     const VerifyOptions& options)
    : call_(call),
      arithmetic_(call, symbols),
      slots_(static_cast<size_t>(options.slots)),
      check_(call.problems.front().check),
      by_content_(options.by_content),
      encodes_(std::any_of(call.schedules.begin(), call.schedules.end(),
                           [](const Schedule& schedule) { return schedule.slots != 0; })),
      random_(options.seed),
      states_(static_cast<size_t>(call.ranks)) {
  for (int rank = 0; rank < call.ranks; ++rank) {
    RankState& mine = state(rank);
    mine.layout = std::move(layouts[static_cast<size_t>(rank)]);
    first_step_.push_back(nodes_.size());
    for (const uint32_t count : call.schedules[static_cast<size_t>(rank)].dependency_count)
      nodes_.push_back({count});
    nodes_.push_back({0});  // what the rank knows at its end
  }
  connect();
  const bool synchronises = is_synchronisation(call.collective);
  if (!synchronises && (!check_ || results_tell())) return;
  knowledge_.emplace(static_cast<size_t>(call.ranks), nodes_.size());
  for (int rank = 0; rank < call.ranks; ++rank)
    for (uint32_t step = 0; step <= call.schedules[static_cast<size_t>(rank)].steps.size(); ++step)
      knowledge_->add(global({rank, step}), rank);
}

// A channel for each sending port; whoever receives finds it at the first message there.
void Execution::connect() {
  for (const bool sending : {true, false})
    for (int rank = 0; rank < call_.ranks; ++rank)
      for (const Port& port : call_.schedules[static_cast<size_t>(rank)].ports)
        if (port.sending == sending && port.begin != port.end) connect(rank, port);
}

void Execution::connect(int rank, const Port& port) {
  const uint32_t* const steps = &call_.schedules[static_cast<size_t>(rank)].port_steps[port.begin];
  const uint32_t count = port.end - port.begin;
  auto channel = static_cast<int32_t>(channels_.size());
  if (port.sending) {
    channels_.push_back(
        {.sender = rank, .receiver = port.peer, .send_steps = steps, .count = count});
  } else {
    const Schedule& theirs = call_.schedules[static_cast<size_t>(port.peer)];
    const Port* partner = find_port(theirs, rank, true);
    channel = node({port.peer, theirs.port_steps[partner->begin]}).channel;
    channels_[static_cast<size_t>(channel)].recv_steps = steps;
  }
  for (uint32_t index = 0; index < count; ++index) node({rank, steps[index]}).channel = channel;
}

uint32_t Execution::next_send(const Channel& channel) const {
  if (channel.sent == channel.count) return kNone;
  const uint32_t step = channel.send_steps[channel.sent];
  return nodes_[global({channel.sender, step})].waiting_for == 0 ? step : kNone;
}

uint32_t Execution::next_recv(const Channel& channel) const {
  if (channel.received == channel.count) return kNone;
  const uint32_t step = channel.recv_steps[channel.received];
  return nodes_[global({channel.receiver, step})].waiting_for == 0 ? step : kNone;
}

// What it waited for is done.
void Execution::consider(StepAt at) {
  const int32_t index = node(at).channel;
  if (index < 0) {
    ready_.push_back(at);
    return;
  }
  Channel& channel = channels_[static_cast<size_t>(index)];
  if (channel.sender == at.rank)
    channel.send_step = next_send(channel);
  else
    channel.recv_step = next_recv(channel);
  consider(channel);
}

void Execution::consider(Channel& channel) {
  const uint32_t send = channel.send_step;
  const uint32_t recv = channel.recv_step;
  if (slots_ == 0) {
    if (send == kNone || recv == kNone || channel.recv_is_ready) return;
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
    return;
  }
  if (send != kNone && !channel.send_is_ready && channel.waiting < slots_) {
    channel.send_is_ready = true;
    ready_.push_back({channel.sender, send});
  }
  if (recv != kNone && !channel.recv_is_ready && channel.waiting > 0) {
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
  }
}

// Among thousands it takes one of the latest, whose ranks the cache still has.
StepAt Execution::draw() {
  constexpr size_t kMany = 4096;
  constexpr size_t kLatest = 8;
  const size_t window = ready_.size() < kMany ? ready_.size() : kLatest;
  const size_t index = ready_.size() - 1 - random_() % window;
  const StepAt drawn = ready_[index];
  ready_[index] = ready_.back();
  ready_.pop_back();
  return drawn;
}

ScheduleFault Execution::read(StepAt at, Slice slice, std::vector<Run>& runs) {
  runs.clear();
  if (slice.size == 0) return {};
  RankState& mine = state(at.rank);
  const Memory* const spaces[] = {&mine.layout.input, &mine.layout.output, &mine.scratch};
  spaces[static_cast<size_t>(slice.space)]->read(slice.offset, slice.size, runs);
  const bool defined = !runs.empty() && runs.back().end == slice.size;
  const auto fault = [&](const std::string& what) {
    return place_of(call_, at.rank, at.step) + " reads " + what;
  };
  if (!defined && slice.is_slot())
    return fault("wire slot " + std::to_string(slice.slot) + ", which nobody wrote");
  if (!defined) return fault("memory that nobody wrote");
  for (const Run& run : runs) {
    const SymbolStage stage = arithmetic_.symbols().stage(run.symbol);
    if (stage == SymbolStage::kUntouched) return fault("output that nobody wrote");
    if (stage == SymbolStage::kLeft) return fault("what a message has left over");
  }
  return {};
}

// A rank that the step may not have heard from when it writes these runs, -1 if there is none.
int Execution::unheard(StepAt at, const std::vector<Run>& runs) const {
  if (knowledge_) return knowledge_->missing(global(at));
  for (const Run& run : runs) {
    const int missing = arithmetic_.symbols().missing(run.symbol);
    if (missing >= 0) return missing;
  }
  return -1;
}

ScheduleFault Execution::write(StepAt at, Slice slice, const std::vector<Run>& runs) {
  if (slice.size == 0) return {};
  if (slice.space == Space::kLeft) return {};  // nobody reads it
  RankState& mine = state(at.rank);
  if (slice.space == Space::kScratch) {
    mine.scratch.write(slice.offset, runs);
    return {};
  }
  if (check_) {
    const int missing = unheard(at, runs);
    if (missing >= 0)
      return place_of(call_, at.rank, at.step) +
             " writes the output without having heard from rank " + std::to_string(missing);
  }
  mine.layout.output.write(slice.offset, runs);
  return {};
}

ScheduleFault Execution::run_local(StepAt at) {
  const Step& step = step_at(at);
  ScheduleFault fault = read(at, step.src, left_);
  if (fault.empty()) fault = read(at, step.src2, right_);
  if (!fault.empty()) return fault;
  fault = arithmetic_.apply(step, at.rank, left_, right_);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  fault = write(at, step.dst, left_);
  if (fault.empty() && step.dst2.size != 0)
    fault = write(at, step.dst2, {Run{0, step.dst2.size, arithmetic_.symbols().left_over(), 0}});
  if (fault.empty()) complete(at);
  return fault;
}

// One that has been received, with the memory of its runs, if there is one.
uint32_t Execution::new_message() {
  if (free_ == kNone) {
    messages_.emplace_back();
    return static_cast<uint32_t>(messages_.size()) - 1;
  }
  const uint32_t message = free_;
  free_ = std::exchange(messages_[message].next, kNone);
  return message;
}

ScheduleFault Execution::run_send(Channel& channel) {
  const StepAt at{channel.sender, channel.send_step};
  const uint32_t message = new_message();
  messages_[message].sender = static_cast<uint32_t>(global(at));
  ScheduleFault fault = read(at, step_at(at).src, messages_[message].runs);
  if (!fault.empty()) return fault;
  (channel.waiting == 0 ? channel.oldest : messages_[channel.newest].next) = message;
  channel.newest = message;
  ++channel.waiting;
  channel.send_is_ready = false;
  ++channel.sent;
  channel.send_step = next_send(channel);
  complete(at);
  return {};
}

ScheduleFault Execution::run_recv(Channel& channel) {
  const StepAt at{channel.receiver, channel.recv_step};
  const Step& step = step_at(at);
  const uint32_t index = channel.oldest;
  Message& message = messages_[index];
  channel.oldest = message.next;
  --channel.waiting;
  if (knowledge_) knowledge_->join(global(at), message.sender);
  left_.clear();
  ScheduleFault fault = step.op == Op::kRecv ? ScheduleFault{} : read(at, step.src, left_);
  if (!fault.empty()) return fault;
  fault = arithmetic_.apply(step, at.rank, left_, message.runs);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  fault = write(at, step.dst, left_);
  if (!fault.empty()) return fault;
  message.next = std::exchange(free_, index);
  channel.recv_is_ready = false;
  ++channel.received;
  channel.recv_step = next_recv(channel);
  complete(at);
  return {};
}

void Execution::complete(StepAt at) {
  RankState& mine = state(at.rank);
  const Schedule& schedule = call_.schedules[static_cast<size_t>(at.rank)];
  ++mine.done;
  if (knowledge_) knowledge_->join(end_of(at.rank), global(at));
  for (const uint32_t next : schedule.successors_of(at.step)) {
    if (knowledge_) knowledge_->join(global({at.rank, next}), global(at));
    if (--node({at.rank, next}).waiting_for == 0) consider(StepAt{at.rank, next});
  }
}

ScheduleFault Execution::run_step(StepAt at) {
  const int32_t index = node(at).channel;
  if (index < 0) return run_local(at);
  Channel& channel = channels_[static_cast<size_t>(index)];
  const bool receives = is_receiving(step_at(at).op);
  ScheduleFault fault;
  if (!receives || slots_ == 0) fault = run_send(channel);
  if (fault.empty() && receives) fault = run_recv(channel);
  if (fault.empty()) consider(channel);
  return fault;
}

ScheduleFault Execution::stuck() const {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const Schedule& schedule = call_.schedules[static_cast<size_t>(rank)];
    const RankState& mine = states_[static_cast<size_t>(rank)];
    if (mine.done == schedule.steps.size()) continue;
    for (const Port& port : schedule.ports) {
      if (port.begin == port.end) continue;
      const int32_t index = nodes_[global({rank, schedule.port_steps[port.begin]})].channel;
      const Channel& channel = channels_[static_cast<size_t>(index)];
      const uint32_t posted = port.sending ? channel.sent : channel.received;
      if (posted < channel.count)
        return place_of(call_, rank, schedule.port_steps[port.begin + posted]) +
               " never completes: nothing can run any more";
    }
    return "rank " + std::to_string(rank) + " never completes: nothing can run any more";
  }
  return {};
}

// Compares each rank's output with what is expected, and the results of all ranks with each other.
ScheduleFault Execution::check_end() {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const RankState& mine = state(rank);
    const int missing = knowledge_ ? knowledge_->missing(end_of(rank)) : -1;
    if (missing >= 0)
      return "rank " + std::to_string(rank) + " ends without having heard from rank " +
             std::to_string(missing);
    ScheduleFault fault =
        arithmetic_.compare(mine.layout.output.runs(), mine.layout.expected.runs());
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
    if (call_.collective != Collective::kAllreduce || rank == 0 || (by_content_ && !encodes_))
      continue;
    fault = arithmetic_.same_order(mine.layout.output.runs(), state(0).layout.output.runs());
    if (!fault.empty()) return "ranks 0 and " + std::to_string(rank) + ": " + fault;
  }
  ScheduleFault fault = arithmetic_.check_kept();
  return fault.empty() && by_content_ ? check_finished() : fault;
}

// Each element's sum came out once at least, so if they are as many as the elements, once each; all
// ranks then have copies of it. By codecs, they have what has become of it in the same way.
ScheduleFault Execution::check_finished() const {
  if (call_.collective != Collective::kAllreduce || call_.ranks == 1) return {};
  const uint64_t once = call_.problems.front().count * size_of(call_.accumulator);
  if (arithmetic_.finished() == once) return {};
  return std::to_string(arithmetic_.finished()) + " bytes of sums are finished instead of " +
         std::to_string(once) + ": some by more than one rank";
}

ScheduleFault Execution::run() {
  for (int rank = 0; rank < call_.ranks; ++rank)
    for (uint32_t step = 0; step < call_.schedules[static_cast<size_t>(rank)].steps.size(); ++step)
      if (call_.schedules[static_cast<size_t>(rank)].dependency_count[step] == 0)
        consider(StepAt{rank, step});
  while (!ready_.empty()) {
    ScheduleFault fault = run_step(draw());
    if (!fault.empty()) return fault;
  }
  ScheduleFault fault = stuck();
  return fault.empty() ? check_end() : fault;
}

}  // namespace

ScheduleFault execute(const VerifiedCall& call, std::vector<Layout> layouts, Symbols& symbols,
                      const VerifyOptions& options) {
  return Execution(call, layouts, symbols, options).run();
}

}  // namespace banyan
