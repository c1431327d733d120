// Sums by a toy codec run over every transport, in groups, after a split, and where a rank dies.
// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "src/base/bell.h"
#include "src/communicator/owner.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/over_transports.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::coded_calls_test {
namespace {

class CodedCalls : public OverTransports {
 protected:
  void run(int size, const std::function<void(Rank&, banyan_comm_t)>& body) {
    const std::string transport(GetParam().transport);
    run_ranks(GetParam().kind, size, [&](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.transports = transport.c_str();
      config.timeout_s = 20 * time_factor();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      use_toys(comm);
      body(self, comm);
      self.leave(comm);
    });
  }
};

// Who makes the calls of a communicator.
enum class Maker : uint8_t { kCaller, kThreadOfItsOwn };

// Makes one call after the other.
class Calls {
 public:
  Calls(banyan_comm_t comm, Maker maker) : comm_(comm) {
    if (maker == Maker::kThreadOfItsOwn) owner_ = own(comm);
  }
  Status run(const Call& call) {
    if (owner_ == nullptr) return run_coded(comm_, call);
    const Result<Submission> made = owner_->submit(call);
    if (!made.ok()) return made.status();
    if (!made->wait(deadline_after(60 * time_factor()))) return {Code::kTimeout, "it has no end"};
    return made->status();
  }

 private:
  banyan_comm_t comm_;
  std::unique_ptr<Owner> owner_;
};

// They are made by both codecs, among exact calls.
void check_sums(Rank& self, banyan_comm_t comm, size_t count, size_t salt) {
  const std::vector<float> send = small_numbers(count, self.rank(), salt);
  std::vector<float> recv;
  for (const char* algorithm : {"direct", "hierarchical"}) {
    self.where(algorithm + (" of " + std::to_string(count)));
    self.expect(run_coded(comm, coded_allreduce(algorithm, kToyWhole, kNoCodec, send, recv)).ok(),
                "a coded call");
    self.expect(recv == sums_of_small_numbers(count, self.size(), salt), "all is said");
    self.expect(run_coded(comm, coded_allreduce(algorithm, kToy, kToy, send, recv)).ok(),
                "a shorter one");
    self.expect(self.size() == 1 || recv == toy_sums(count, self.size(), salt),
                "only a part is said");
  }
  self.verify(comm, count, salt);
}

// Lengths about those at which transports change how they carry a message, too.
TEST_P(CodedCalls, HaveTheSumsOfWhatWasSaid) {
  for (const int size : {1, 2, 3, 5})
    run(size, [](Rank& self, banyan_comm_t comm) {
      for (const size_t count : {0, 1, 2, 5, 13, 100, 4097, 70001, 300000})
        check_sums(self, comm, count, count);
    });
}

TEST_P(CodedCalls, HaveThemWhereLocalStepsEndLater) {
  for (const int size : {1, 2, 3})
    run(size, [](Rank& self, banyan_comm_t comm) {
      delay_local_work(comm, static_cast<unsigned>(self.rank()));
      for (const size_t count : {1, 13, 70001}) check_sums(self, comm, count, count);
    });
}

// Among exact calls.
TEST_P(CodedCalls, JoinGroups) {
  run(3, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCounts[] = {1000, 30000, 7, 200000};
    std::vector<std::vector<float>> sent, coded(std::size(kCounts)), exact(std::size(kCounts));
    for (const size_t count : kCounts) sent.push_back(small_numbers(count, self.rank(), count));
    for (int round = 0; round < 5; ++round) {
      self.expect_ok(banyan_group_start(), "group_start");
      for (size_t i = 0; i < std::size(kCounts); ++i) {
        exact[i].assign(kCounts[i], -1);
        self.expect(
            join_coded(comm, coded_allreduce("direct", kToy, kNoCodec, sent[i], coded[i])).ok(),
            "a coded call of a group");
        self.expect_ok(banyan_allreduce(sent[i].data(), exact[i].data(), kCounts[i], BANYAN_FLOAT32,
                                        BANYAN_SUM, comm),
                       "an exact call of a group");
      }
      self.expect_ok(banyan_group_end(), "group_end");
      for (size_t i = 0; i < std::size(kCounts); ++i) {
        self.expect(coded[i] == toy_sums(kCounts[i], self.size(), kCounts[i]), "a coded sum");
        self.expect(exact[i] == sums_of_small_numbers(kCounts[i], self.size(), kCounts[i]),
                    "an exact sum");
      }
    }
  });
}

class Opened final : public StartGate {
 public:
  bool is_open() override { return open_.load(); }
  int descriptor() const override { return bell_.get(); }
  void open() {
    open_.store(true);
    ring(bell_);
  }

 private:
  std::atomic<bool> open_{false};
  Descriptor bell_ = std::move(*make_bell());
};

class Counted final : public Hook {
 public:
  void ended(const Execution& execution) override { ends += execution.cancelled() ? 100 : 1; }
  std::atomic<int> ends{0};
};

// Several at once, coded and exact, behind gates that another thread opens, with local steps that
// end later.
TEST_P(CodedCalls, AreMadeByAThreadOfTheirOwn) {
  run(3, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCounts[] = {1000, 30000, 7, 200000};
    delay_local_work(comm, static_cast<unsigned>(self.rank()));
    const std::unique_ptr<Owner> owner = own(comm);
    if (!self.expect(owner != nullptr, "a thread")) return;
    for (int round = 0; round < 5; ++round) {
      std::vector<std::vector<float>> sent, coded(std::size(kCounts)), exact(std::size(kCounts));
      std::vector<Submission> made;
      Opened gate;
      Counted hook;
      for (const size_t count : kCounts) sent.push_back(small_numbers(count, self.rank(), count));
      for (size_t i = 0; i < std::size(kCounts); ++i)
        for (const bool by_codec : {true, false}) {
          Call call = coded_allreduce("direct", by_codec ? kToy : kNoCodec, kNoCodec, sent[i],
                                      by_codec ? coded[i] : exact[i]);
          if (i == 0) call.gate = &gate;
          call.hook = &hook;
          made.push_back(*owner->submit(call));
        }
      // What ignores its gate would have begun by then.
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      self.expect(!made.front().done() && !made.back().done(), "one began before its gate opened");
      gate.open();
      for (const Submission& each : made)
        self.expect(each.wait(deadline_after(20 * time_factor())) && each.status().ok(), "a call");
      self.expect(hook.ends == static_cast<int>(made.size()), "not all hooks heard of their ends");
      for (size_t i = 0; i < std::size(kCounts); ++i) {
        self.expect(coded[i] == toy_sums(kCounts[i], self.size(), kCounts[i]), "a coded sum");
        self.expect(exact[i] == sums_of_small_numbers(kCounts[i], self.size(), kCounts[i]),
                    "an exact sum");
      }
    }
  });
}

TEST_P(CodedCalls, WorkAfterASplit) {
  run(4, [](Rank& self, banyan_comm_t comm) {
    banyan_comm_t half = nullptr;
    if (!self.expect_ok(banyan_comm_split(comm, self.rank() % 2, -self.rank(), &half, nullptr),
                        "split"))
      return;
    use_toys(half);
    const int place = self.rank() < 2 ? 1 : 0;  // by their keys
    std::vector<float> recv;
    for (const Maker maker : {Maker::kCaller, Maker::kThreadOfItsOwn}) {
      Calls calls(half, maker);
      for (const size_t count : {size_t{9}, size_t{50000}}) {
        const std::vector<float> send = small_numbers(count, place, count);
        self.expect(calls.run(coded_allreduce("direct", kToy, kNoCodec, send, recv)).ok(),
                    "a coded call of a half");
        self.expect(recv == toy_sums(count, 2, count), "the sum of a half");
      }
    }
    self.leave(half);
  });
}

// Who asks for another codec makes another call.
TEST_P(CodedCalls, OfAnotherCodecAreAMismatch) {
  for (const bool exact : {false, true})
    run_ranks(GetParam().kind, 2, [&](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      const std::string transport(GetParam().transport);
      config.transports = transport.c_str();
      config.timeout_s = 20 * time_factor();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      use_toys(comm);
      const std::vector<float> send = small_numbers(1000, self.rank(), 1);
      std::vector<float> recv;
      const CodecId mine = self.rank() == 0 ? kToy : exact ? kNoCodec : kToyWhole;
      const Status status = run_coded(comm, coded_allreduce("direct", mine, kNoCodec, send, recv));
      self.expect(status.code() == Code::kMismatch,
                  "not a mismatch: " + std::string(status.message()));
      self.expect(recv == std::vector<float>(1000, -1), "the output was written");
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

// No transport carries it, and nobody works on it; nothing is under way after that.
TEST_P(CodedCalls, OnMemoryOfAGpuAreRefused) {
  run(2, [](Rank& self, banyan_comm_t comm) {
    const std::vector<float> send = small_numbers(1000, self.rank(), 1);
    std::vector<float> recv;
    for (const CodecId codec : {kNoCodec, kToy}) {
      Call call = coded_allreduce("direct", codec, kNoCodec, send, recv);
      call.problem.memory = MemoryKind::kDevice;
      const Status status = run_coded(comm, call);
      self.expect(status.code() == Code::kUnsupported, std::string(status.message()));
      self.expect(recv == std::vector<float>(1000, -1), "the output was written");
    }
    self.verify(comm, 1000, 1);
  });
}

// Everybody else is told whom they lost, in the middle of coded calls.
TEST_P(CodedCalls, TellOfARankThatDies) {
  if (GetParam().kind == Kind::kThreads) GTEST_SKIP() << "threads cannot be killed";
  const std::pair<Maker, size_t> cases[] = {{Maker::kCaller, 100},
                                            {Maker::kCaller, size_t{1} << 20},
                                            {Maker::kThreadOfItsOwn, size_t{1} << 18}};
  for (const auto& [maker, count] : cases) {
    const std::string transport(GetParam().transport);
    Job job(GetParam().kind, 4, [&, maker = maker, count = count](Rank& self) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.transports = transport.c_str();
      banyan_comm_t comm = self.join(&config);
      if (comm == nullptr) return;
      use_toys(comm);
      const std::vector<float> send = small_numbers(count, self.rank(), count);
      const std::vector<float> wanted = toy_sums(count, self.size(), count);
      std::vector<float> recv;
      if (self.rank() % 2 == 1) delay_local_work(comm, static_cast<unsigned>(self.rank()));
      std::optional<Calls> calls(std::in_place, comm, maker);
      self.mark(1);
      for (;;) {
        const Status status = calls->run(coded_allreduce("direct", kToy, kNoCodec, send, recv));
        if (!status.ok()) {
          self.report(comm, static_cast<banyan_result_t>(status.code()));
          break;
        }
        if (!self.expect(recv == wanted, "a wrong sum before the failure")) break;
      }
      calls.reset();
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
    ASSERT_TRUE(job.wait_for_marks(1, 20));
    job.wait(0.1);
    const TimePoint at = Clock::now();
    job.signal(2, SIGKILL);
    job.finish();
    for (const int rank : {0, 1, 3}) {
      const Outcome& outcome = job.outcome(rank);
      ASSERT_TRUE(outcome.seen) << "rank " << rank << " returned nothing";
      EXPECT_EQ(outcome.code, BANYAN_ERR_PEER_LOST) << outcome.text;
      EXPECT_EQ(outcome.failed_rank, 2) << outcome.text;
      EXPECT_LT(std::chrono::duration<double>(outcome.at - at).count(), 1 * time_factor());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodedCalls, everywhere(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::coded_calls_test
