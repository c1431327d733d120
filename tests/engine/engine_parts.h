// The tests of the engine run it on this: a transport that shares no memory and has no wire, whose
// moods a seed decides, and an interpreter of schedules that is too simple to be wrong.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "algorithms/problem.h"
#include "algorithms/schedule.h"
#include "src/engine/engine.h"
#include "transports/transport.h"

namespace banyan::test {

// What a scripted transport does beside moving bytes.
struct Moods {
  int busy_every = 0;       // every so many posts say kBusy; 0: none
  bool shuffle = false;     // completions come in any order, some of them late
  bool rendezvous = false;  // a send completes only when its receive has taken it
  unsigned seed = 1;
  int later_every = 0;  // every so many local steps end later, in any order; 0: none
};
// Some of them, to be used in turn.
std::span<const Moods> all_moods();

// All ranks of one test, in one thread.
class Hub {
 public:
  explicit Hub(const Moods& moods) : moods_(moods), random_(moods.seed) {}

  std::unique_ptr<Transport> transport(int rank);
  // The next completion of this rank's transfers with `peer` is kPeerLost.
  void lose(int rank, int peer) { lost_[{rank, peer}] = true; }
  // A message that nobody of this test sends.
  void inject(int from, int to, Lane lane, const Envelope& envelope);
  long posted() const { return posted_; }

 private:
  friend class ScriptedTransport;
  using Route = std::tuple<int, int, Lane>;  // from, to
  struct Sent {
    Envelope envelope;
    Bytes bytes;
    uint64_t cookie = 0;
    bool awaited = false;  // the sender learns when it is taken
  };

  Status post(int rank, const Transfer& transfer);
  void match(const Route& route);
  void complete(int rank, const Completion& completion) { done_[rank].push_back(completion); }
  size_t poll(int rank, std::span<Completion> completions);

  Moods moods_;
  std::mt19937 random_;
  long posted_ = 0;
  std::map<Route, std::deque<Sent>> sent_;
  std::map<Route, std::deque<Transfer>> expected_;
  std::map<int, std::vector<Completion>> done_;
  std::map<std::pair<int, int>, bool> lost_;
};

// A call on all ranks: problems, schedules and memory.
struct Calls {
  std::vector<Problem> problems;
  std::vector<Schedule> schedules;
  std::vector<Bytes> inputs, outputs, scratches;
  std::vector<Bytes> lefts;  // of calls that keep what is left; otherwise empty
  Arithmetic arithmetic;
  std::span<const Codec> codecs;  // that the schedules number

  Spaces spaces(int rank);
};

std::vector<std::unique_ptr<Execution>> executions_of(const Calls& calls);

// All ranks of one communicator, each with its engine.
class Engines {
 public:
  Engines(int ranks, const Moods& moods);

  Hub& hub() { return hub_; }
  Engine& of(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  static Envelope envelope(const Calls& calls, uint32_t number);
  void start(int rank, Calls& calls, Execution& execution, uint32_t number) {
    of(rank).start(execution, calls.spaces(rank), calls.arithmetic, envelope(calls, number),
                   Lane::kCollective);
  }
  // Gives turns to all engines in any order until all are idle; false: they never are, or one has
  // trouble.
  bool run();

 private:
  Hub hub_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// Runs each rank's steps in program order, rank after rank, as far as each gets; false: they are
// stuck.
bool interpret(Calls& calls, const Kernels& kernels);

// `salt` makes their data differ.
Calls make_calls(Collective collective, DataType type, ReduceOp op, int ranks, uint64_t count,
                 bool in_place, int algorithm, uint64_t salt, const Parameters& parameters = {},
                 const Hierarchy* hierarchy = nullptr);

}  // namespace banyan::test
