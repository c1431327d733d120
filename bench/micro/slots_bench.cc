// Times how a slot is handed over: what a message costs both ends of a channel in shared memory. It
// does so in one thread, so that no cache line moves, through the queues and past them
// (quick_lane.h); and between two cores.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>
#include <sched.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "bench/micro/channel.h"
#include "src/base/relax.h"

namespace banyan::shm {
namespace {

class Messages {
 public:
  explicit Messages(size_t bytes) {
    message_.envelope.bytes = bytes;
    message_.memory = memory_.front().bytes;
    wanted_ = message_;
    wanted_.direction = Direction::kRecv;
    wanted_.memory = result_.front().bytes;
  }

  void through_queues() {
    channel_.send().push(message_);
    channel_.recv().push(wanted_);
    channel_.send().progress(completions_);
    channel_.recv().progress(completions_, {});
    completions_.pop(completions_.size());
  }

  void past_queues() {
    send();
    receive();
  }

  // Past the queues. False: not yet.
  bool send() {
    return channel_.send().send_whole(message_.memory, message_.envelope) == SendPort::Whole::kSent;
  }
  bool receive() { return channel_.recv().receive_whole(wanted_) == RecvPort::Whole::kTaken; }

 private:
  Channel channel_;
  std::vector<Channel::Slot> memory_ = std::vector<Channel::Slot>(1);
  std::vector<Channel::Slot> result_ = std::vector<Channel::Slot>(1);
  Completions completions_;
  alignas(kLineBytes) Transfer message_;
  alignas(kLineBytes) Transfer wanted_;
};

template <void (Messages::*Pass)()>
void pass(benchmark::State& state) {
  Messages messages(static_cast<size_t>(state.range(0)));
  for ([[maybe_unused]] const auto& iteration : state) (messages.*Pass)();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(pass<&Messages::through_queues>)->Name("queues")->Arg(8)->Arg(256)->Arg(4096)->Arg(32768);
BENCHMARK(pass<&Messages::past_queues>)->Name("quick")->Arg(8)->Arg(256)->Arg(4096)->Arg(32768);

std::vector<size_t> usable_cores() {
  std::vector<size_t> cores;
  cpu_set_t set{};
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Keeps the calling thread on a core of those that it may use.
class Pinned {
 public:
  explicit Pinned(size_t core) {
    cpu_set_t set{};
    CPU_SET(core, &set);
    ::sched_getaffinity(0, sizeof before_, &before_);
    ::sched_setaffinity(0, sizeof set, &set);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

// Times a way there and back, past the queues, and half of it: from one core's message to the other
// core's copy of it.
void hand_over(benchmark::State& state) {
  const std::vector<size_t> cores = usable_cores();
  if (cores.size() < 2) {
    state.SkipWithError("there is one core, or one that this process may use; it takes two");
    return;
  }
  Messages there(static_cast<size_t>(state.range(0)));
  Messages back(static_cast<size_t>(state.range(0)));
  const std::jthread other([&](const std::stop_token& stop) {
    const Pinned pinned(cores[1]);
    while (true) {
      while (!there.receive()) {
        if (stop.stop_requested()) return;
        relax();
      }
      while (!back.send()) relax();
    }
  });
  const Pinned pinned(cores[0]);
  const auto round_trip = [&] {
    while (!there.send()) relax();
    while (!back.receive()) relax();
  };
  round_trip();  // the other thread runs
  while (state.KeepRunningBatch(2)) round_trip();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hand_over)->Arg(8)->Arg(64)->Arg(4096)->Arg(32768)->UseRealTime();

}  // namespace
}  // namespace banyan::shm

BENCHMARK_MAIN();
