// What BANYAN_DEBUG=trace says of calls: each of them, its messages, its sleeps.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/c_api/inspect.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::trace_test {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSlept = " trace call: slept ";

class Traces : public WithRanks {
 protected:
  JobOptions options(const std::string& levels, const std::string& transport) const {
    return {.environment = {{"BANYAN_DEBUG", levels},
                            {"BANYAN_DEBUG_FILE", folder_.path() / "%r.log"},
                            {"BANYAN_TRANSPORTS", transport}}};
  }
  // Two ranks, whose lines are kept apart.
  void run_logged(const std::string& levels, const std::function<void(Rank&, banyan_comm_t)>& body,
                  const std::string& transport = "shm") {
    run_joined(2, body, options(levels, transport));
  }
  // Those with that text.
  std::vector<std::string> lines(int rank, const std::string& with) const {
    std::ifstream stream(folder_.path() / fmt::format("{}.log", rank));
    std::vector<std::string> found;
    for (std::string line; std::getline(stream, line);)
      if (line.find(with) != std::string::npos) found.push_back(line);
    return found;
  }

 private:
  TemporaryFolder folder_;
};

// Known calls, and messages in a line, too: whatever is faster than the engine is not taken.
TEST_P(Traces, EveryCallBeginsAndEnds) {
  constexpr size_t kTimes = 4;
  run_logged("call=trace", [](Rank& self, banyan_comm_t comm) {
    std::vector<float> send(1000, 1.0F);
    std::vector<float> recv(1000);
    for (size_t i = 0; i < kTimes; ++i)
      self.expect_ok(
          banyan_allreduce(send.data(), recv.data(), send.size(), BANYAN_FLOAT32, BANYAN_MAX, comm),
          "allreduce");
    for (size_t i = 0; i < kTimes; ++i) {
      self.expect_ok(banyan_group_start(), "group_start");
      for (int message = 0; message < 2; ++message)
        self.expect_ok(self.rank() == 0 ? banyan_send(send.data(), 7, BANYAN_FLOAT32, 1, comm)
                                        : banyan_recv(recv.data(), 7, BANYAN_FLOAT32, 0, comm),
                       "a message");
      self.expect_ok(banyan_group_end(), "group_end");
    }
    banyan_call_t call = call_of([&](banyan_call_t& made) {
      made.collective = BANYAN_BROADCAST;
      made.send = send.data();
      made.recv = send.data();
      made.count = 3;
      made.datatype = BANYAN_INT8;
      made.root = 1;
    });
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "request_create");
    self.expect_ok(banyan_request_start(request), "request_start");
    self.expect_ok(banyan_request_wait(request), "request_wait");
    self.expect_ok(banyan_request_destroy(request), "request_destroy");
  });
  for (const int rank : {0, 1}) {
    const auto sums = lines(rank, "begins: allreduce of 1000 float32 max, by ");
    ASSERT_EQ(sums.size(), kTimes);
    for (size_t i = 0; i < kTimes; ++i)
      EXPECT_THAT(sums[i], HasSubstr(fmt::format(" trace call: call {} ", i)));
    EXPECT_EQ(lines(rank, rank == 0 ? "begins: send of 7 float32 to rank 1"
                                    : "begins: recv of 7 float32 from rank 0")
                  .size(),
              2 * kTimes);
    const std::string in_place = rank == 1 ? ", in place" : "";
    EXPECT_EQ(
        lines(rank, fmt::format("begins: broadcast of 3 int8, root 1{}, by ", in_place)).size(),
        1U);
    EXPECT_EQ(lines(rank, " begins: ").size(), lines(rank, " ends after ").size());
    EXPECT_EQ(lines(rank, " begins: finalize").size(), 1U);
    EXPECT_EQ(lines(rank, " trace net: ").size(), 0U);
  }
}

TEST_P(Traces, EveryMessageSaysItsWay) {
  run_logged("net=trace", [](Rank& self, banyan_comm_t comm) {
    void* shared = nullptr;
    constexpr size_t kLong = size_t{1} << 20;
    self.expect_ok(banyan_mem_alloc(comm, &shared, kLong), "mem_alloc");
    std::vector<std::byte> own(kLong);
    for (void* memory : {static_cast<void*>(own.data()), shared})
      for (const size_t bytes : {size_t{3}, kLong})
        self.expect_ok(self.rank() == 0 ? banyan_send(memory, bytes, BANYAN_INT8, 1, comm)
                                        : banyan_recv(own.data(), bytes, BANYAN_INT8, 0, comm),
                       "a message");
    self.expect_ok(banyan_barrier(comm), "barrier");
    self.expect_ok(banyan_mem_free(comm, shared), "mem_free");
  });
  for (const int rank : {0, 1}) {
    const std::string peer = rank == 0 ? "to rank 1" : "from rank 0";
    EXPECT_THAT(lines(rank, "net: message 0: "),
                Contains(HasSubstr(fmt::format("3 bytes {} by shm, through slots", peer))));
    EXPECT_THAT(lines(rank, "net: message 1: "),
                Contains(ContainsRegex(fmt::format(
                    "1048576 bytes {} by shm, (through slots|read from afar)$", peer))));
    EXPECT_THAT(lines(rank, "net: message 3: "),
                Contains(HasSubstr(fmt::format("1048576 bytes {} by shm, read in place", peer))));
    // The barrier has these.
    EXPECT_FALSE(lines(rank, "net: call 0: 0 bytes to rank ").empty());
    EXPECT_FALSE(lines(rank, "net: call 0: 0 bytes from rank ").empty());
    EXPECT_EQ(lines(rank, " trace call: ").size(), 0U);
  }
}

TEST_P(Traces, MessagesOverANetworkDoToo) {
  if (kThreadSanitizer) GTEST_SKIP() << "UCX dies under the thread sanitizer where a thread ends";
  for (const TransportState& transport : transport_states())
    if (transport.name == "ucx" && !transport.missing.empty()) GTEST_SKIP() << transport.missing;
  run_logged(
      "net=trace",
      [](Rank& self, banyan_comm_t comm) {
        std::vector<std::byte> memory(size_t{1} << 20);
        for (const size_t bytes : {size_t{3}, memory.size()})
          self.expect_ok(
              banyan_broadcast(memory.data(), memory.data(), bytes, BANYAN_INT8, 0, comm),
              "broadcast");
      },
      "ucx");
  for (const int rank : {0, 1}) {
    const std::string peer = rank == 0 ? "to rank 1" : "from rank 0";
    EXPECT_THAT(lines(rank, "net: call 0: "),
                Contains(HasSubstr(fmt::format("3 bytes {} by ucx, in one frame", peer))));
    EXPECT_THAT(lines(rank, "net: call 1: "),
                Contains(ContainsRegex(fmt::format("[0-9]+ bytes {} by ucx, in pieces$", peer))));
  }
}

// The receiver learns a length that was not planned.
TEST_P(Traces, MessagesOfACodecSayHowLongTheyWere) {
  constexpr size_t kCount = 2000;
  run_logged("net=trace", [](Rank& self, banyan_comm_t comm) {
    use_toys(comm);
    const std::vector<float> send = small_numbers(kCount, self.rank(), 1);
    std::vector<float> recv;
    self.expect(run_coded(comm, coded_allreduce("direct", kToy, kNoCodec, send, recv)).ok(),
                "a coded call");
  });
  const auto lengths = [&](int rank, std::string_view peer) {
    std::vector<std::string> found;
    for (const std::string& line : lines(rank, fmt::format(" bytes {}", peer))) {
      const size_t begin = line.find("call 0: ") + 8;
      if (begin > 8 && line.find("call 0: ") != std::string::npos)
        found.push_back(line.substr(begin, line.find(" bytes") - begin));
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const std::vector<std::string> sent = lengths(0, "to rank 1");
  ASSERT_EQ(sent.size(), 2U) << "a share of what rank 0 has, and of the sum";
  EXPECT_EQ(lengths(1, "from rank 0"), sent);
  EXPECT_NE(sent, std::vector<std::string>(2, std::to_string(kCount))) << "all of both was said";
}

TEST_P(Traces, SleepsSayWhatForAndWhatEndedThem) {
  run_logged("call=trace", [this](Rank& self, banyan_comm_t comm) {
    // After a sleep it looks a little before the next one: it may be awake when the other comes.
    for (int round = 0; round < 5; ++round) {
      const size_t before = lines(0, kSlept).size();
      self.meet();
      if (self.rank() == 1) {
        self.expect(self.wait_until([&] { return lines(0, kSlept).size() > before; }), "a sleep");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      self.expect_ok(banyan_barrier(comm), "barrier");
    }
  });
  const std::string of_0 = "slept [0-9]+\\.[0-9] us, waiting for rank 1; woken by ";
  EXPECT_THAT(lines(0, kSlept), Contains(ContainsRegex(of_0 + "the clock$")));
  EXPECT_THAT(lines(0, kSlept), Contains(ContainsRegex(of_0 + "shm$")));
}

TEST_P(Traces, CallsThatFailAreGivenUp) {
  run(
      2,
      [this](Rank& self) {
        banyan_comm_t comm = self.join();
        if (comm == nullptr) return;
        if (self.rank() == 0) {
          self.expect_code(banyan_barrier(comm), BANYAN_ERR_PEER_LOST, "barrier");
        } else {
          self.wait_until([&] { return !lines(0, "call 0 begins: barrier").empty(); });
          self.expect_ok(banyan_comm_abort(comm), "abort");
        }
        self.meet();
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      },
      options("trace", "shm"));
  EXPECT_EQ(lines(0, "call 0 is given up after ").size(), 1U);
  EXPECT_TRUE(lines(0, " ends after ").empty());
}

// As a benchmark has it of its own calls.
TEST_P(Traces, CallsThatAreNotToBeLoggedAreNot) {
  run_logged("trace", [](Rank& self, banyan_comm_t comm) {
    self.expect(logs_calls(comm).ok() && *logs_calls(comm), "calls are logged");
    self.expect(log_calls(comm, false).ok(), "log_calls");
    for (int i = 0; i < 3; ++i) self.expect_ok(banyan_barrier(comm), "barrier");
    self.expect(log_calls(comm, true).ok(), "log_calls");
    const banyan_call_t call =
        call_of([](banyan_call_t& made) { made.collective = BANYAN_BARRIER; });
    self.expect(plan_of(comm, call).ok(), "plan_of");
    self.expect_ok(banyan_barrier(comm), "barrier");
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(lines(rank, "begins: barrier"), ElementsAre(HasSubstr(" call 3 begins: ")));
    EXPECT_EQ(lines(rank, " ends after ").size(), 2U);  // the barrier, and finalize
    EXPECT_TRUE(lines(rank, "net: call 0: ").empty());
    EXPECT_FALSE(lines(rank, "net: call 3: ").empty());
    // The plan was made before.
    EXPECT_EQ(lines(rank, "info plan: barrier").size(), 1U);
  }
}

TEST_P(Traces, NobodyIsToldWhoDoesNotAsk) {
  run_logged("info", [](Rank& self, banyan_comm_t comm) {
    self.verify(comm, 1000, 1);
    self.verify(comm, 1000, 2);
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(lines(rank, " trace ").size(), 0U);
    EXPECT_FALSE(lines(rank, " info plan: ").empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Traces, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::trace_test
