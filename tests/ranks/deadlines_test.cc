// Each operation has its own deadline, whoever waits for what.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/ranks/ranks_cases.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test::deadlines_test {
namespace {

class Deadlines : public WithRanks {};

// One rank does not come: which call of the other that was, after how long, and who has set that.
void be_late(Rank& self, const banyan_config_t& config, int kind, double limit) {
  banyan_comm_t comm = self.join(&config);
  if (comm == nullptr) return;
  float values[8] = {};
  const auto sum = [&] {
    return banyan_allreduce(values, values, 7, BANYAN_FLOAT32, BANYAN_SUM, comm);
  };
  for (int turn = 0; turn < 3; ++turn) self.expect_ok(sum(), "a call with all ranks");
  if (self.rank() == 0) {
    const size_t counts[] = {3, 4};
    banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = values;
      c.count = 5;
      c.timeout_s = limit;
    });
    const TimePoint begin = Clock::now();
    const banyan_result_t result =
        kind == 0   ? sum()
        : kind == 1 ? banyan_recv(values, 5, BANYAN_INT32, 1, comm)
        : kind == 2 ? banyan_allgatherv(values, 3, values, counts, nullptr, BANYAN_INT8, comm)
        : kind == 3 ? banyan_barrier(comm)
                    : call_request(call, comm);
    self.report(comm, result, seconds_since(begin));
  } else {
    wait_for_error(self, comm);
  }
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
}

TEST_P(Deadlines, ThatPassSayOfWhichCall) {
  const std::string calls[] = {
      "allreduce of 7 float32, sum, call 3", "recv of 5 int32 from rank 1, message 0",
      "allgatherv of int8, call 3", "barrier, call 3", "allreduce of 5 float32, sum, call 3"};
  const double limit = 0.7 * time_factor();
  for (int kind = 0; kind < 5; ++kind) {
    banyan_config_t config = BANYAN_CONFIG_INIT;
    if (kind == 1) config.timeout_s = limit;
    Job job(GetParam(), 2, [&](Rank& self) { be_late(self, config, kind, limit); },
            {.environment = {
                 {"BANYAN_TIMEOUT", kind == 4 ? "60s" : fmt::format("{:.0f}ms", limit * 1e3)}}});
    job.finish();
    const Outcome& outcome = job.outcome(0);
    EXPECT_EQ(outcome.code, BANYAN_ERR_TIMEOUT) << outcome.text;
    const auto says = [&](const std::string& text) {
      return outcome.text.find(text) != std::string::npos;
    };
    const std::string begin = calls[kind] + " has not ended after ";
    const size_t at = outcome.text.find(begin);
    ASSERT_NE(at, std::string::npos) << outcome.text;
    const double waited = std::strtod(outcome.text.c_str() + at + begin.size(), nullptr);
    EXPECT_GE(waited, limit);
    EXPECT_LE(waited, outcome.seconds + 0.1);
    EXPECT_TRUE(says(fmt::format("the limit of {:.6g} s is from {}", limit,
                                 kind == 4   ? "timeout_s of the call"
                                 : kind == 1 ? "timeout_s of the communicator's configuration"
                                             : "BANYAN_TIMEOUT")))
        << outcome.text;
    EXPECT_TRUE(says("rank 0 waits for rank 1")) << outcome.text;
  }
}

// One group receives on two communicators, with deadlines of their own. The first has no message.
TEST_P(Deadlines, OfAGroupAreThoseOfItsCalls) {
  run(2, [](Rank& self) {
    banyan_comm_t silent = self.join();
    banyan_comm_t late = self.join();
    if (silent == nullptr || late == nullptr) return;
    float value = 0;
    const double slow = 0.6 * time_factor();
    if (self.rank() == 0) {
      float none = 0;
      const auto call = [](float* to, double timeout) {
        return call_of([&](banyan_call_t& c) {
          c.collective = BANYAN_RECV;
          c.recv = to;
          c.count = 1;
          c.root = 1;
          c.timeout_s = timeout;
        });
      };
      const banyan_call_t first = call(&none, slow / 3);
      const banyan_call_t second = call(&value, 50 * slow);
      banyan_request_t requests[2] = {};
      self.expect_ok(banyan_request_create(silent, &first, &requests[0]), "create");
      self.expect_ok(banyan_request_create(late, &second, &requests[1]), "create");
      self.expect_ok(banyan_group_start(), "group_start");
      for (banyan_request_t request : requests)
        self.expect_ok(banyan_request_start(request), "start");
      self.expect_ok(banyan_group_end(), "group_end");
      self.expect_code(banyan_request_wait(requests[0]), BANYAN_ERR_TIMEOUT, "the silent one");
      self.expect_ok(banyan_request_wait(requests[1]), "the late one");
      self.expect(value == 7, "the late message is wrong");
      for (banyan_request_t request : requests)
        self.expect_ok(banyan_request_destroy(request), "destroy");
    } else {
      const TimePoint begin = Clock::now();
      self.wait_until([&] { return seconds_since(begin) > slow; });
      value = 7;
      self.expect_ok(banyan_send(&value, 1, BANYAN_FLOAT32, 0, late), "send");
    }
    self.verify(late, 100, 1);
    self.leave(late);
    self.expect_ok(banyan_comm_destroy(silent), "destroy of one that has failed");
  });
}

// A blocking group, too: what has time left goes on when the other one is over.
TEST_P(Deadlines, OfACommunicatorAreNotThoseOfAnother) {
  run(2, [](Rank& self) {
    const double slow = 0.6 * time_factor();
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout_s = slow / 3;
    banyan_comm_t silent = self.join(&config);
    config.timeout_s = 50 * slow;
    banyan_comm_t late = self.join(&config);
    if (silent == nullptr || late == nullptr) return;
    float values[2] = {0, 7};
    if (self.rank() == 0) {
      self.expect_ok(banyan_group_start(), "group_start");
      self.expect_ok(banyan_recv(&values[1], 1, BANYAN_FLOAT32, 1, silent), "recv");
      self.expect_ok(banyan_recv(&values[0], 1, BANYAN_FLOAT32, 1, late), "recv");
      self.expect_code(banyan_group_end(), BANYAN_ERR_TIMEOUT, "group_end");
      self.expect(values[0] == 7, "the late message did not come");
    } else {
      const TimePoint begin = Clock::now();
      self.wait_until([&] { return seconds_since(begin) > slow; });
      self.expect_ok(banyan_send(&values[1], 1, BANYAN_FLOAT32, 0, late), "send");
    }
    self.verify(late, 100, 1);
    self.leave(late);
    self.expect_ok(banyan_comm_destroy(silent), "destroy of one that has failed");
  });
}

// Nobody waits for the request; the others have not begun it.
TEST_P(Deadlines, HoldWhereNobodyWaits) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    std::vector<float> values(100);
    const double timeout = 0.2 * time_factor();
    const banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = values.data();
      c.count = values.size();
      c.timeout_s = timeout;
    });
    banyan_request_t request = nullptr;
    const TimePoint begin = Clock::now();
    if (self.rank() == 0) {
      self.expect_ok(banyan_request_create(comm, &call, &request), "create");
      self.expect_ok(banyan_request_start(request), "start");
    }
    banyan_result_t error = BANYAN_SUCCESS;
    self.wait_until([&] {
      self.expect_ok(banyan_comm_async_error(comm, &error), "async_error");
      return error != BANYAN_SUCCESS || seconds_since(begin) > 5 * time_factor();
    });
    self.expect_code(error, BANYAN_ERR_TIMEOUT, "what async_error says");
    self.expect(seconds_since(begin) < timeout + stall_s(), "TIMEOUT comes late");
    if (request != nullptr) {
      self.expect_code(banyan_request_wait(request), BANYAN_ERR_TIMEOUT, "wait");
      self.expect_ok(banyan_request_destroy(request), "destroy of the request");
    }
    self.meet();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// While bytes move all the time, too. The best of a few: others may have the core.
TEST_P(Deadlines, HoldWhileBytesMove) {
  run(2, [](Rank& self) {
    std::vector<float> values(size_t{48} << 20);
    double least = 1000;
    for (int trial = 0; trial < 5; ++trial) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      const banyan_call_t call = call_of([&](banyan_call_t& c) {
        c.send = c.recv = values.data();
        c.count = values.size();
        c.timeout_s = 0.002;
      });
      banyan_request_t request = nullptr;
      self.expect_ok(banyan_request_create(comm, &call, &request), "create");
      self.meet();
      const TimePoint begin = Clock::now();
      banyan_result_t result = banyan_request_start(request);  // the other one may be over by then
      if (result == BANYAN_SUCCESS) result = banyan_request_wait(request);
      self.expect_code(result, BANYAN_ERR_TIMEOUT, "start or wait");
      least = std::min(least, seconds_since(begin));
      self.meet();
      self.expect_ok(banyan_request_destroy(request), "destroy of the request");
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    }
    self.expect(least < 0.05 * time_factor(), fmt::format("TIMEOUT after {:.3f} s", least));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Deadlines, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::deadlines_test
