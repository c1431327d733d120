// Windows of messages: groups of sends to one rank, or of receives from one, made again and again.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <string_view>
#include <thread>
#include <vector>

#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::lines_test {
namespace {

class Lines : public WithRanks {};

int64_t word(int from, int round, size_t message, size_t place) {
  return (int64_t{from} << 48) + (int64_t{round} << 32) + static_cast<int64_t>(message << 16) +
         static_cast<int64_t>(place % 65536);
}

// Messages of these counts, one after another, between this rank and `peer`.
struct Window {
  banyan_comm_t comm;
  int peer;
  std::vector<size_t> counts;
  std::vector<std::vector<int64_t>> memory = std::vector<std::vector<int64_t>>(counts.size());

  void fill(int from, int round) {
    for (size_t i = 0; i < counts.size(); ++i) {
      memory[i].resize(counts[i]);
      for (size_t place = 0; place < counts[i]; ++place)
        memory[i][place] = word(from, round, i, place);
    }
  }
  void clear() {
    for (size_t i = 0; i < counts.size(); ++i) memory[i].assign(counts[i], -1);
  }
  bool holds(int from, int round) const {
    for (size_t i = 0; i < counts.size(); ++i)
      for (size_t place = 0; place < counts[i]; ++place)
        if (memory[i][place] != word(from, round, i, place)) return false;
    return true;
  }
  void send(Rank& self) {
    for (size_t i = 0; i < counts.size(); ++i)
      self.expect_ok(banyan_send(memory[i].data(), counts[i], BANYAN_INT64, peer, comm), "send");
  }
  void receive(Rank& self) {
    for (size_t i = 0; i < counts.size(); ++i)
      self.expect_ok(banyan_recv(memory[i].data(), counts[i], BANYAN_INT64, peer, comm), "receive");
  }
};

template <typename Body>
void grouped(Rank& self, bool grouped, const Body& body) {
  if (grouped) self.expect_ok(banyan_group_start(), "group_start");
  body();
  if (grouped) self.expect_ok(banyan_group_end(), "group_end");
}

std::vector<size_t> counts_of(size_t messages) {
  constexpr size_t kCounts[] = {1, 7, 300, 0, 2000, 1, 1, 5000};
  std::vector<size_t> counts;
  for (size_t i = 0; i < messages; ++i) counts.push_back(kCounts[i % std::size(kCounts)]);
  return counts;
}

// A rank may take one by one what the other sends in a group, and the other way round.
TEST_P(Lines, BringEveryMessage) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    for (const size_t messages : {1U, 2U, 8U, 64U, 301U}) {
      Window window{comm, 1 - self.rank(), counts_of(messages)};
      for (int round = 0; round < 12; ++round) {
        const int from = round % 2;
        const bool in_group = (round / 2 + self.rank() * (round / 6)) % 3 != 2;
        self.rank() == from ? window.fill(from, round) : window.clear();
        grouped(self, in_group,
                [&] { self.rank() == from ? window.send(self) : window.receive(self); });
        if (self.rank() != from)
          self.expect(window.holds(from, round),
                      fmt::format("{} messages, round {}", messages, round));
      }
    }
    self.verify(comm, 100, 1);
  });
}

// Only some of them: the engine takes over where a rank waits for long.
TEST_P(Lines, AreRunPastTheEngine) {
  constexpr int kRounds = 50;
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    Window window{comm, 1 - self.rank(), std::vector<size_t>(8, 5)};
    window.fill(0, 0);
    const auto speak = [&] { self.rank() == 0 ? window.send(self) : window.receive(self); };
    for (int round = 0; round < 3; ++round) grouped(self, true, speak);
    const uint64_t before = engine_starts(comm);
    for (int round = 0; round < kRounds; ++round) grouped(self, true, speak);
    const uint64_t started = engine_starts(comm) - before;
    const uint64_t messages = kRounds * window.counts.size();
    self.expect(started < messages,
                fmt::format("the engine began {} of {} messages of lines", started, messages));
  });
}

// More than there is room for, before anybody looks: the sender waits in the kernel.
TEST_P(Lines, WaitForALateReceiver) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    Window window{comm, 1 - self.rank(), std::vector<size_t>(400, 500)};
    for (int round = 0; round < 4; ++round) {
      const bool sends = self.rank() == round % 2;
      sends ? window.fill(self.rank(), round) : window.clear();
      // Late on purpose, by a sleep: nothing tells a rank that the other one waits in the kernel.
      if (round >= 2 && !sends) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      grouped(self, true, [&] { sends ? window.send(self) : window.receive(self); });
      if (!sends) self.expect(window.holds(1 - self.rank(), round), fmt::format("round {}", round));
    }
  });
}

// Each makes of the line what it was without: calls that the engine has in flight together.
TEST_P(Lines, EndWhereAnotherCallJoins) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    const int next = (self.rank() + 1) % 3, before = (self.rank() + 2) % 3;
    Window out{comm, next, counts_of(5)}, in{comm, before, counts_of(5)};
    for (int round = 0; round < 9; ++round) {
      out.fill(self.rank(), round);
      in.clear();
      int64_t sum = self.rank();
      grouped(self, true, [&] {
        if (round % 3 == 0) in.receive(self);
        out.send(self);
        if (round % 3 == 1)
          self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_INT64, BANYAN_SUM, comm), "sum");
        if (round % 3 != 0) in.receive(self);
      });
      self.expect(in.holds(before, round), fmt::format("round {}", round));
      self.expect(sum == (round % 3 == 1 ? 3 : self.rank()), "the sum");
    }
  });
}

// What was started before is under way still: the engine takes the messages, too.
TEST_P(Lines, RunBesideARequest) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    Window window{comm, 1 - self.rank(), counts_of(9)};
    int64_t sum = 0;
    banyan_call_t call = BANYAN_CALL_INIT;
    call.send = call.recv = &sum;
    call.count = 1;
    call.datatype = BANYAN_INT64;
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    for (int round = 0; round < 6; ++round) {
      sum = 1;
      self.rank() == 0 ? window.fill(0, round) : window.clear();
      // Rank 1 starts it only when it has all messages.
      if (self.rank() == 0) self.expect_ok(banyan_request_start(request), "start");
      grouped(self, true, [&] { self.rank() == 0 ? window.send(self) : window.receive(self); });
      if (self.rank() == 1) self.expect_ok(banyan_request_start(request), "start");
      self.expect_ok(banyan_request_wait(request), "wait");
      self.expect(sum == 2 && (self.rank() == 0 || window.holds(0, round)),
                  fmt::format("round {}", round));
    }
    self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

TEST_P(Lines, AreStillChecked) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Window window{comm, 1 - self.rank(), {5, 6, 5}};
    for (int round = 0; round < 3; ++round) {
      window.fill(0, round);
      grouped(self, true, [&] { self.rank() == 0 ? window.send(self) : window.receive(self); });
    }
    // Nothing is sent of a group with an error in it.
    int64_t value = 0;
    self.expect_ok(banyan_group_start(), "group_start");
    self.expect_ok(banyan_send(&value, 1, BANYAN_INT64, 1 - self.rank(), comm), "send");
    self.expect_code(banyan_send(nullptr, 5, BANYAN_INT64, 1 - self.rank(), comm),
                     BANYAN_ERR_INVALID_ARGUMENT, "a null buffer");
    self.expect_code(banyan_group_end(), BANYAN_ERR_INVALID_ARGUMENT, "group_end");
    self.verify(comm, 100, 1);
    // Known, but not what the other rank makes.
    window.fill(0, 9);
    if (self.rank() == 1) std::swap(window.counts[0], window.counts[1]);
    window.memory[0].resize(6);
    self.expect_ok(banyan_group_start(), "group_start");
    self.rank() == 0 ? window.send(self) : window.receive(self);
    self.expect_code(banyan_group_end(), BANYAN_ERR_MISMATCH, "a line of other counts");
    const std::string_view text = banyan_last_error(comm);
    for (const char* part : {"count", "rank 0", "rank 1"})
      self.expect(text.find(part) != std::string_view::npos, std::string(text));
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

TEST_P(Lines, EndWithTheirPeer) {
  for (const int survivor : {0, 1})
    run(2, [&](Rank& self) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      Window window{comm, 1 - self.rank(), std::vector<size_t>(64, 500)};
      window.fill(0, 0);
      const auto speak = [&] { self.rank() == 0 ? window.send(self) : window.receive(self); };
      for (int round = 0; round < 3; ++round) grouped(self, true, speak);
      if (self.rank() == survivor) {
        self.expect_ok(banyan_group_start(), "group_start");
        for (size_t i = 0; i < window.counts.size(); ++i) {
          void* memory = window.memory[i].data();  // either function may know of the end already
          (void)(self.rank() == 0 ? banyan_send(memory, 500, BANYAN_INT64, 1, comm)
                                  : banyan_recv(memory, 500, BANYAN_INT64, 0, comm));
        }
        self.expect_code(banyan_group_end(), BANYAN_ERR_PEER_LOST, "a line to nobody");
      } else {
        self.expect_ok(banyan_comm_abort(comm), "abort");
      }
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

TEST_P(Lines, SurviveTheEndOfTheirCommunicator) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    int64_t value = 0;
    const int peer = 1 - self.rank();
    const auto speak = [&] {
      self.expect_ok(self.rank() == 0 ? banyan_send(&value, 1, BANYAN_INT64, peer, comm)
                                      : banyan_recv(&value, 1, BANYAN_INT64, peer, comm),
                     "a message");
    };
    for (int round = 0; round < 3; ++round) grouped(self, true, speak);
    self.expect_ok(banyan_group_start(), "group_start");
    speak();
    self.meet();  // nobody aborts before everybody has made the call
    self.expect_ok(banyan_comm_abort(comm), "abort");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
    self.expect_code(banyan_group_end(), BANYAN_ERR_INVALID_ARGUMENT, "a line without its end");
  });
}

// While a group is open, another thread makes so many calls that what was known of its messages is
// known no more.
TEST_P(Lines, HoldWhatAnotherThreadMakesForgotten) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    Window window{comm, 1 - self.rank(), std::vector<size_t>(8, 5)};
    const auto speak = [&] { self.rank() == 0 ? window.send(self) : window.receive(self); };
    for (int round = 0; round < 4; ++round) {
      self.rank() == 0 ? window.fill(0, round) : window.clear();
      grouped(self, true, [&] {
        speak();
        std::thread other([&] {
          std::vector<int64_t> sums(300, 1);
          for (size_t count = 1; round == 3 && count <= sums.size(); ++count)
            self.expect_ok(
                banyan_allreduce(sums.data(), sums.data(), count, BANYAN_INT64, BANYAN_MAX, comm),
                "allreduce");
        });
        other.join();
      });
      self.expect(self.rank() == 0 || window.holds(0, round), fmt::format("round {}", round));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Lines, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::lines_test
