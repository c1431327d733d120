// A thread that aborts and destroys the communicator on which a call of another thread hangs.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "src/base/process.h"
#include "src/c_api/handles.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::watchdog_test {
namespace {

class Watchdog : public WithRanks {};

// A thread is in a call on it.
bool is_inside(banyan_comm_t comm) {
  return !process().communicators.wait_for_pins(place_of(comm), 0, Clock::now());
}

TEST_P(Watchdog, EndsACommunicatorUnderACall) {
  using Call = std::function<banyan_result_t(banyan_comm_t, banyan_request_t)>;
  std::vector<float> values(size_t{1} << 20);
  const Call calls[] = {
      [](banyan_comm_t comm, banyan_request_t) { return banyan_barrier(comm); },
      [&](banyan_comm_t comm, banyan_request_t) {
        return banyan_allreduce(values.data(), values.data(), values.size(), BANYAN_FLOAT32,
                                BANYAN_SUM, comm);
      },
      [](banyan_comm_t, banyan_request_t request) { return banyan_request_wait(request); },
      [](banyan_comm_t comm, banyan_request_t) {
        banyan_comm_t child = nullptr;
        return banyan_comm_split(comm, 0, 0, &child, nullptr);
      },
      [](banyan_comm_t comm, banyan_request_t) {
        banyan_group_start();
        banyan_barrier(comm);
        return banyan_group_end();
      }};
  run(2, [&](Rank& self) {
    for (int round = 0; round < 25; ++round) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      if (self.rank() == 0) {
        const banyan_call_t call =
            call_of([](banyan_call_t& made) { made.collective = BANYAN_BARRIER; });
        banyan_request_t request = nullptr;
        self.expect_ok(banyan_request_create(comm, &call, &request), "create");
        if (round % 5 == 2) self.expect_ok(banyan_request_start(request), "start");
        banyan_result_t result = BANYAN_SUCCESS;
        std::thread caller([&] { result = calls[round % 5](comm, request); });
        self.wait_until([&] { return is_inside(comm); });
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        self.expect_ok(banyan_comm_abort(comm), "abort");
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
        caller.join();
        // The end of a group may come too late for both.
        self.expect(result == BANYAN_ERR_ABORTED ||
                        (round % 5 == 4 && result == BANYAN_ERR_INVALID_ARGUMENT),
                    fmt::format("call {} ended with {}", round % 5, static_cast<int>(result)));
      } else {
        self.expect_code(wait_for_error(self, comm), BANYAN_ERR_PEER_LOST, "the other rank");
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      }
      self.meet();
    }
  });
}

std::atomic<bool> held{false}, holds{false};

// A signal handler that takes its time.
void hold(int /*signal*/) {
  held.store(true);
  const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
  while (holds.load()) nanosleep(&pause, nullptr);
}

TEST_P(Watchdog, FreesNothingUnderACallThatDoesNotEnd) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    // Known from then on: what the handler interrupts below has no lock that others need.
    for (int again = 0; again < 3; ++again) self.expect_ok(banyan_barrier(comm), "barrier");
    if (self.rank() == 1) {
      self.expect_code(wait_for_error(self, comm), BANYAN_ERR_PEER_LOST, "the other rank");
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
      return;
    }
    struct sigaction action {};
    action.sa_handler = hold;
    sigaction(SIGUSR1, &action, nullptr);
    held.store(false);
    holds.store(true);
    banyan_result_t result = BANYAN_SUCCESS;
    std::thread caller([&] { result = banyan_barrier(comm); });
    self.wait_until([&] { return is_inside(comm); });
    pthread_kill(caller.native_handle(), SIGUSR1);
    self.wait_until([] { return held.load(); });
    self.expect_ok(banyan_comm_abort(comm), "abort");
    self.expect_code(banyan_comm_destroy(comm), BANYAN_ERR_INVALID_USAGE, "destroy under a call");
    int rank = -1;
    self.expect_ok(banyan_comm_rank(comm, &rank), "nothing is freed");
    holds.store(false);
    caller.join();
    self.expect_code(result, BANYAN_ERR_ABORTED, "the call");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Watchdog, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::watchdog_test
