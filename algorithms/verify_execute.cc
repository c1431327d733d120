// Runs the schedules of all ranks, one step at a time, in an order drawn from a seed.
//
// A step is put into `ready_` when nothing keeps it from running, and nothing later can; so the
// draw is among all that could happen next. Between two ranks that exchange messages there is a
// channel with `slots` places. With no place, sender and receiver run as one.
// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <random>
#include <utility>

#include "algorithms/verify_arithmetic.h"
#include "algorithms/verify_parts.h"

namespace banyan {
namespace {

constexpr uint32_t kNone = 0xffffffff;

struct StepAt {
  int rank;
  uint32_t step;
};

struct Message {
  std::vector<Run> runs;
  uint32_t sender;  // the step, counted over all ranks
};

struct Channel {
  int sender = -1;
  int receiver = -1;
  const Port* send_port = nullptr;
  const Port* recv_port = nullptr;
  uint32_t sent = 0;
  uint32_t received = 0;
  bool send_is_ready = false;  // the next one: in ready_, or taken from it and not yet run
  bool recv_is_ready = false;
  std::vector<Message> messages;  // `slots` at most
};

// Which ranks a step knows to have entered the call: its own, those known to the steps that it
// waits for, and those known to the sender of what it receives.
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
  std::vector<uint32_t> waiting_for;
  std::vector<int32_t> channel_of;  // per port
  size_t first_step = 0;            // counted over all ranks
  size_t done = 0;
};

class Execution {
 public:
  Execution(const VerifiedCall& call, std::vector<Layout>& layouts, Symbols& symbols,
            const VerifyOptions& options);

  Fault run();

 private:
  const Step& step_at(StepAt at) const {
    return call_.schedules[static_cast<size_t>(at.rank)].steps[at.step];
  }
  RankState& state(int rank) { return states_[static_cast<size_t>(rank)]; }
  size_t global(StepAt at) const {
    return states_[static_cast<size_t>(at.rank)].first_step + at.step;
  }

  void connect(std::vector<Layout>& layouts);
  uint32_t next_send(const Channel& channel) const;
  uint32_t next_recv(const Channel& channel) const;
  void consider(StepAt at);
  void consider(Channel& channel);
  StepAt draw();
  Fault run_step(StepAt at);
  Fault run_local(StepAt at);
  Fault run_send(Channel& channel);
  Fault run_recv(Channel& channel);
  void complete(StepAt at);
  Fault read(StepAt at, Slice slice, std::vector<Run>& runs);
  Fault write(StepAt at, Slice slice, const std::vector<Run>& runs);
  Fault check_end();
  Fault stuck() const;

  const VerifiedCall& call_;
  SymbolArithmetic arithmetic_;
  size_t slots_;
  bool check_;
  std::mt19937 random_;
  std::vector<RankState> states_;
  std::vector<Channel> channels_;
  std::vector<StepAt> ready_;
  size_t steps_ = 0;
  Knowledge knowledge_;
};

size_t count_steps(const VerifiedCall& call) {
  size_t count = static_cast<size_t>(call.ranks);  // one more each: what the rank knows at its end
  for (const Schedule& schedule : call.schedules) count += schedule.steps.size();
  return count;
}

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
      random_(options.seed),
      states_(static_cast<size_t>(call.ranks)),
      knowledge_(static_cast<size_t>(call.ranks), count_steps(call)) {
  connect(layouts);
}

void Execution::connect(std::vector<Layout>& layouts) {
  constexpr int32_t kUnknown = -1;
  const auto ranks = static_cast<size_t>(call_.ranks);
  std::vector<int32_t> known(ranks * ranks, kUnknown);
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const Schedule& schedule = call_.schedules[static_cast<size_t>(rank)];
    RankState& mine = state(rank);
    mine.layout = std::move(layouts[static_cast<size_t>(rank)]);
    mine.waiting_for = schedule.dependency_count;
    mine.first_step = steps_;
    steps_ += schedule.steps.size() + 1;
    for (size_t step = 0; step <= schedule.steps.size(); ++step)
      knowledge_.add(mine.first_step + step, rank);
    for (const Port& port : schedule.ports) {
      const int sender = port.sending ? rank : port.peer;
      const int receiver = port.sending ? port.peer : rank;
      int32_t& at = known[static_cast<size_t>(sender) * ranks + static_cast<size_t>(receiver)];
      if (at == kUnknown) {
        at = static_cast<int32_t>(channels_.size());
        channels_.push_back({.sender = sender, .receiver = receiver, .messages = {}});
      }
      Channel& channel = channels_[static_cast<size_t>(at)];
      (port.sending ? channel.send_port : channel.recv_port) = &port;
      mine.channel_of.push_back(at);
    }
  }
}

uint32_t Execution::next_send(const Channel& channel) const {
  const Port& port = *channel.send_port;
  if (channel.sent == port.end - port.begin) return kNone;
  const auto rank = static_cast<size_t>(channel.sender);
  const uint32_t step = call_.schedules[rank].port_steps[port.begin + channel.sent];
  return states_[rank].waiting_for[step] == 0 ? step : kNone;
}

uint32_t Execution::next_recv(const Channel& channel) const {
  const Port& port = *channel.recv_port;
  if (channel.received == port.end - port.begin) return kNone;
  const auto rank = static_cast<size_t>(channel.receiver);
  const uint32_t step = call_.schedules[rank].port_steps[port.begin + channel.received];
  return states_[rank].waiting_for[step] == 0 ? step : kNone;
}

// What it waited for is done.
void Execution::consider(StepAt at) {
  const int32_t port = call_.schedules[static_cast<size_t>(at.rank)].port_of[at.step];
  if (port < 0)
    ready_.push_back(at);
  else
    consider(channels_[static_cast<size_t>(state(at.rank).channel_of[static_cast<size_t>(port)])]);
}

void Execution::consider(Channel& channel) {
  const uint32_t send = next_send(channel);
  const uint32_t recv = next_recv(channel);
  if (slots_ == 0) {
    if (send == kNone || recv == kNone || channel.recv_is_ready) return;
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
    return;
  }
  if (send != kNone && !channel.send_is_ready && channel.messages.size() < slots_) {
    channel.send_is_ready = true;
    ready_.push_back({channel.sender, send});
  }
  if (recv != kNone && !channel.recv_is_ready && !channel.messages.empty()) {
    channel.recv_is_ready = true;
    ready_.push_back({channel.receiver, recv});
  }
}

StepAt Execution::draw() {
  const size_t index = random_() % ready_.size();
  const StepAt drawn = ready_[index];
  ready_[index] = ready_.back();
  ready_.pop_back();
  return drawn;
}

Fault Execution::read(StepAt at, Slice slice, std::vector<Run>& runs) {
  if (slice.size == 0) return {};
  RankState& mine = state(at.rank);
  const Memory* const spaces[] = {&mine.layout.input, &mine.layout.output, &mine.scratch};
  runs = spaces[static_cast<size_t>(slice.space)]->read(slice.offset, slice.size);
  const bool defined = !runs.empty() && runs.back().end == slice.size;
  if (!defined) return place_of(call_, at.rank, at.step) + " reads memory that nobody wrote";
  for (const Run& run : runs)
    if (arithmetic_.symbols().stage(run.symbol) == SymbolStage::kUntouched)
      return place_of(call_, at.rank, at.step) + " reads output that nobody wrote";
  return {};
}

Fault Execution::write(StepAt at, Slice slice, const std::vector<Run>& runs) {
  if (slice.size == 0) return {};
  RankState& mine = state(at.rank);
  if (slice.space == Space::kScratch) {
    mine.scratch.write(slice.offset, runs);
    return {};
  }
  if (check_) {
    const int missing = knowledge_.missing(global(at));
    if (missing >= 0)
      return place_of(call_, at.rank, at.step) +
             " writes the output without having heard from rank " + std::to_string(missing);
  }
  mine.layout.output.write(slice.offset, runs);
  return {};
}

Fault Execution::run_local(StepAt at) {
  const Step& step = step_at(at);
  std::vector<Run> left;
  std::vector<Run> right;
  Fault fault = read(at, step.src, left);
  if (fault.empty()) fault = read(at, step.src2, right);
  if (!fault.empty()) return fault;
  fault = arithmetic_.apply(step, at.rank, left, right);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  fault = write(at, step.dst, left);
  if (fault.empty()) complete(at);
  return fault;
}

Fault Execution::run_send(Channel& channel) {
  const StepAt at{channel.sender, next_send(channel)};
  Message message{{}, static_cast<uint32_t>(global(at))};
  Fault fault = read(at, step_at(at).src, message.runs);
  if (!fault.empty()) return fault;
  channel.messages.push_back(std::move(message));
  channel.send_is_ready = false;
  ++channel.sent;
  complete(at);
  return {};
}

Fault Execution::run_recv(Channel& channel) {
  const StepAt at{channel.receiver, next_recv(channel)};
  const Step& step = step_at(at);
  Message message = std::move(channel.messages.front());
  channel.messages.erase(channel.messages.begin());
  knowledge_.join(global(at), message.sender);
  std::vector<Run> left;
  Fault fault = step.op == Op::kRecv ? Fault{} : read(at, step.src, left);
  if (!fault.empty()) return fault;
  fault = arithmetic_.apply(step, at.rank, left, message.runs);
  if (!fault.empty()) return place_of(call_, at.rank, at.step) + " " + fault;
  fault = write(at, step.dst, left);
  if (!fault.empty()) return fault;
  channel.recv_is_ready = false;
  ++channel.received;
  complete(at);
  return {};
}

void Execution::complete(StepAt at) {
  RankState& mine = state(at.rank);
  const Schedule& schedule = call_.schedules[static_cast<size_t>(at.rank)];
  ++mine.done;
  knowledge_.join(mine.first_step + schedule.steps.size(), global(at));
  for (const uint32_t next : schedule.successors_of(at.step)) {
    knowledge_.join(mine.first_step + next, global(at));
    if (--mine.waiting_for[next] == 0) consider(StepAt{at.rank, next});
  }
}

Fault Execution::run_step(StepAt at) {
  const int32_t port = call_.schedules[static_cast<size_t>(at.rank)].port_of[at.step];
  if (port < 0) return run_local(at);
  const auto index = state(at.rank).channel_of[static_cast<size_t>(port)];
  Channel& channel = channels_[static_cast<size_t>(index)];
  const bool receives = is_receiving(step_at(at).op);
  Fault fault;
  if (!receives || slots_ == 0) fault = run_send(channel);
  if (fault.empty() && receives) fault = run_recv(channel);
  if (fault.empty()) consider(channel);
  return fault;
}

Fault Execution::stuck() const {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const Schedule& schedule = call_.schedules[static_cast<size_t>(rank)];
    const RankState& mine = states_[static_cast<size_t>(rank)];
    if (mine.done == schedule.steps.size()) continue;
    for (size_t port = 0; port < schedule.ports.size(); ++port) {
      const Channel& channel = channels_[static_cast<size_t>(mine.channel_of[port])];
      const Port& each = schedule.ports[port];
      const uint32_t posted = each.sending ? channel.sent : channel.received;
      if (posted < each.end - each.begin)
        return place_of(call_, rank, schedule.port_steps[each.begin + posted]) +
               " never completes: nothing can run any more";
    }
    return "rank " + std::to_string(rank) + " never completes: nothing can run any more";
  }
  return {};
}

// Compares each rank's output with what is expected, and the results of all ranks with each other.
Fault Execution::check_end() {
  for (int rank = 0; rank < call_.ranks; ++rank) {
    const RankState& mine = state(rank);
    const size_t end = call_.schedules[static_cast<size_t>(rank)].steps.size();
    const int missing = knowledge_.missing(mine.first_step + end);
    if (missing >= 0 && (check_ || is_synchronisation(call_.collective)))
      return "rank " + std::to_string(rank) + " ends without having heard from rank " +
             std::to_string(missing);
    Fault fault = arithmetic_.compare(mine.layout.output.runs(), mine.layout.expected.runs());
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
    if (call_.collective != Collective::kAllreduce || rank == 0) continue;
    fault = arithmetic_.same_order(mine.layout.output.runs(), state(0).layout.output.runs());
    if (!fault.empty()) return "ranks 0 and " + std::to_string(rank) + ": " + fault;
  }
  return {};
}

Fault Execution::run() {
  for (int rank = 0; rank < call_.ranks; ++rank)
    for (uint32_t step = 0; step < state(rank).waiting_for.size(); ++step)
      if (call_.schedules[static_cast<size_t>(rank)].dependency_count[step] == 0)
        consider(StepAt{rank, step});
  while (!ready_.empty()) {
    Fault fault = run_step(draw());
    if (!fault.empty()) return fault;
  }
  Fault fault = stuck();
  return fault.empty() ? check_end() : fault;
}

}  // namespace

Fault execute(const VerifiedCall& call, std::vector<Layout> layouts, Symbols& symbols,
              const VerifyOptions& options) {
  return Execution(call, layouts, symbols, options).run();
}

}  // namespace banyan
