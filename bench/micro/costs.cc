// Prints what Banyan takes beside moving bytes, each cost beside its limit: medians.
//
// usage: costs [REPETITIONS]
// SPDX-License-Identifier: Apache-2.0

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "bench/micro/mirror.h"
#include "bench/micro/small_calls.h"
#include "src/base/clock.h"

namespace banyan {
namespace {

constexpr int kRanks = 8;
constexpr int kSizes = 50;    // that are new, in each job of processes
constexpr int kCalls = 1000;  // timed together, few enough that most are not interrupted
constexpr int kTimes = 20;    // that, in each repetition

double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print(const char* what, double seconds, double unit, const char* name, double limit) {
  std::printf("%-44s %9.2f %s", what, seconds / unit, name);
  if (limit > 0) std::printf(" %9.0f %s", limit, name);
  std::printf("\n");
  std::fflush(stdout);
}

// What they tell, in memory that all of them share.
struct Board {
  std::atomic<int> here{0};
  std::atomic<bool> has_id{false};
  banyan_unique_id_t id{};
  TimePoint begin;
  std::array<double, kRanks> joined{};
  std::array<std::array<double, kRanks>, kSizes> first{}, next{};
};

double time_of_call(banyan_comm_t comm, std::vector<float>& values, size_t count) {
  need(banyan_barrier(comm) == BANYAN_SUCCESS, "banyan_barrier");
  const TimePoint begin = Clock::now();
  need(banyan_allreduce(values.data(), values.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm) ==
           BANYAN_SUCCESS,
       "banyan_allreduce");
  return seconds_since(begin);
}

void be_rank(Board& board, size_t rank) {
  ++board.here;
  while (board.here < kRanks) sched_yield();
  if (rank == 0) {
    board.begin = Clock::now();
    need(banyan_get_unique_id(&board.id) == BANYAN_SUCCESS, "banyan_get_unique_id");
    board.has_id = true;
  }
  while (!board.has_id) sched_yield();
  banyan_comm_t comm = nullptr;
  need(
      banyan_comm_init(&comm, kRanks, &board.id, static_cast<int>(rank), nullptr) == BANYAN_SUCCESS,
      "banyan_comm_init");
  board.joined[rank] = seconds_since(board.begin);
  std::vector<float> values(kSizes);
  time_of_call(comm, values, 0);
  for (size_t i = 0; i < kSizes; ++i) {
    board.first[i][rank] = time_of_call(comm, values, i + 1);
    board.next[i][rank] = time_of_call(comm, values, i + 1);
  }
  need(banyan_comm_finalize(comm) == BANYAN_SUCCESS, "banyan_comm_finalize");
  banyan_comm_destroy(comm);
}

void run_processes(Board& board) {
  std::vector<pid_t> children;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    children.push_back(fork());
    need(children.back() >= 0, "fork");
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_rank(board, rank);
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    need(waitpid(child, &status, 0) == child && status == 0, "a rank");
  }
}

double mean_over_ranks(const std::array<double, kRanks>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / kRanks;
}

void measure_processes(int repetitions) {
  std::vector<double> init, first, next;
  void* page =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(page != MAP_FAILED, "mmap");
  for (int i = 0; i < repetitions; ++i) {
    Board& board = *new (page) Board;
    run_processes(board);
    init.push_back(*std::max_element(board.joined.begin(), board.joined.end()));
    for (const auto& times : board.first) first.push_back(mean_over_ranks(times));
    for (const auto& times : board.next) next.push_back(mean_over_ranks(times));
  }
  munmap(page, sizeof(Board));
  print("init of 8 local ranks", median(init), 1e-3, "ms", 150);
  print("first call of a new size, 8 ranks", median(first), 1e-6, "us", 50);
  print("  the next call of that size", median(next), 1e-6, "us", 0);
}

template <typename Body>
double time_of(int calls, const Body& body) {
  const TimePoint begin = Clock::now();
  for (int call = 0; call < calls; ++call) body();
  return seconds_since(begin) / calls;
}

template <typename Body>
double median_of(int repetitions, int calls, const Body& body) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) times.push_back(time_of(calls, body));
  return median(times);
}

// The steps of rank 0 of an allreduce of 4 bytes, over a mirror.
class Steps {
 public:
  Steps() : execution_(plan_->schedule), scratch_(plan_->schedule.scratch_size) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(std::make_unique<Mirror>(kRanks));
    engine_.emplace(std::move(transports), std::vector<int>(kRanks, 0), best_kernels());
    envelope_.signature = plan_->signature;
    program_ = Program::lower(plan_->schedule, {}, envelope_, *engine_);
    need(program_.has_value(), "a program");
    for (const Step& step : plan_->schedule.steps) {
      if (!is_transfer(step.op)) continue;
      Transfer& transfer =
          by_hand_.emplace_back(transfer_of(step, ReduceOp::kSum, envelope_, engine_->kernels()));
      place(transfer, step, spaces());
      quick_lanes_.push_back(
          engine_->transport_to(step.peer).quick_lane(step.peer, Lane::kCollective));
    }
  }

  double count() const { return static_cast<double>(plan_->schedule.steps.size()); }

  // What somebody would write who knew all messages beforehand.
  void run_by_hand() {
    for (size_t i = 0; i < quick_lanes_.size(); ++i) {
      Transfer& transfer = by_hand_[i];
      transfer.envelope.call = envelope_.call;
      const bool moved = transfer.direction == Direction::kSend
                             ? quick_lanes_[i]->send(transfer.memory, transfer.envelope) ==
                                   QuickLane::Departure::kSent
                             : quick_lanes_[i]->receive(transfer) == QuickLane::Arrival::kTaken;
      need(moved, "a message by hand");
    }
    ++envelope_.call;
  }
  void run_program() {
    program_->begin(spaces(), envelope_.call++);
    need(program_->run() == Program::Stop::kDone, "a program");
  }
  void run_engine() {
    Trouble trouble;
    engine_->start(execution_, spaces(), {}, envelope_, Lane::kCollective);
    while (!execution_.done())
      need(engine_->progress(trouble).ok() && !trouble, "the engine's progress");
    ++envelope_.call;
  }

 private:
  Spaces spaces() { return {input_.data(), output_.data(), scratch_.data()}; }
  static std::shared_ptr<Plan> plan() {
    Problem problem;
    problem.count = 1;
    // Sends to a peer and receives from it in turn, as a mirror answers.
    return PlanCache(0, kRanks, Medium::kMemory, {})
        .find_or_build(problem, find_algorithm("recursive_doubling"));
  }

  std::shared_ptr<Plan> plan_ = plan();
  Execution execution_;
  std::optional<Engine> engine_;
  Envelope envelope_;
  std::optional<Program> program_;
  std::vector<Transfer> by_hand_;
  std::vector<QuickLane*> quick_lanes_;
  Bytes input_ = Bytes(sizeof(float)), output_ = input_, scratch_;
};

void measure_calls(int repetitions) {
  const int times = repetitions * kTimes;
  SmallCalls alone(1, 1), eight(kRanks, 1);
  size_t count = 0;  // of more sizes than plans are kept
  print("  what each of them makes for it",
        median_of(times, kSizes, [&] { eight.prepare(1 + count++ % 100); }), 1e-6, "us", 0);
  print("cached allreduce on 1 rank", median_of(times, kCalls, [&] { alone.by_door(); }), 1e-9,
        "ns", 40);
  // In turns, so that a processor that changes its speed does so for all three.
  Steps steps;
  std::vector<double> by_hand, program, engine;
  for (int i = 0; i < times; ++i) {
    const double least = time_of(kCalls, [&] { steps.run_by_hand(); });
    by_hand.push_back(least);
    program.push_back(time_of(kCalls, [&] { steps.run_program(); }) - least);
    engine.push_back(time_of(kCalls, [&] { steps.run_engine(); }) - least);
  }
  print("a message by hand, at each end", median(by_hand) / steps.count(), 1e-9, "ns", 0);
  print("  what a lowered program adds to a step", median(program) / steps.count(), 1e-9, "ns", 5);
  print("  what the engine adds to a step", median(engine) / steps.count(), 1e-9, "ns", 50);
}

}  // namespace
}  // namespace banyan

int main(int argument_count, char** arguments) {
  const int repetitions = argument_count > 1 ? std::atoi(arguments[1]) : 9;
  if (argument_count > 2 || repetitions < 1) {
    std::fprintf(stderr, "usage: costs [REPETITIONS]\n");
    return 2;
  }
  std::printf("%-44s %12s %12s\n", "what", "median", "limit");
  std::fflush(stdout);
  banyan::measure_processes(repetitions);  // fork() before there are threads
  banyan::measure_calls(repetitions);
  return 0;
}
