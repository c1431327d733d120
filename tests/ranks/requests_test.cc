// Requests: persistent, several in flight, waited for in any order, tested, or left alone.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "src/c_api/inspect.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::requests_test {
namespace {

class Requests : public WithRanks {};

// An allreduce of int64 whose result is known, as a request.
struct Sum {
  Sum(banyan_comm_t comm, size_t count) : send(count), recv(count) {
    banyan_call_t call = BANYAN_CALL_INIT;
    call.send = send.data();
    call.recv = recv.data();
    call.count = count;
    call.datatype = BANYAN_INT64;
    created = banyan_request_create(comm, &call, &request);
  }
  void fill(const Rank& self, int64_t salt) {
    for (size_t i = 0; i < send.size(); ++i)
      send[i] = salt + static_cast<int64_t>(i) * (self.rank() + 1);
    std::fill(recv.begin(), recv.end(), -1);
  }
  void check(Rank& self, int64_t salt, int line = __builtin_LINE()) const {
    const int64_t size = self.size();
    for (size_t i = 0; i < recv.size(); ++i)
      if (recv[i] != size * salt + static_cast<int64_t>(i) * size * (size + 1) / 2)
        return self.fail(fmt::format("element {} of {} is {}", i, recv.size(), recv[i]), __FILE__,
                         line);
  }

  std::vector<int64_t> send, recv;
  banyan_request_t request = nullptr;
  banyan_result_t created = BANYAN_SUCCESS;
};

TEST_P(Requests, AreStartedAgainAndAgain) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Sum sum(comm, 1000);
    if (!self.expect_ok(sum.created, "create")) return;
    for (int64_t round = 0; round < 50; ++round) {
      sum.fill(self, round);
      self.expect_ok(banyan_request_start(sum.request), "start");
      self.expect_ok(banyan_request_wait(sum.request), "wait");
      sum.check(self, round);
      self.expect_ok(banyan_request_wait(sum.request), "wait again");
      int done = 0;
      self.expect_ok(banyan_request_test(sum.request, &done), "test after wait");
      self.expect(done == 1, "done after wait");
    }
    self.expect_ok(banyan_request_destroy(sum.request), "destroy");
    self.expect_code(banyan_request_wait(sum.request), BANYAN_ERR_INVALID_ARGUMENT,
                     "wait for a destroyed request");
  });
}

TEST_P(Requests, AreWaitedForInAnyOrder) {
  run_joined(4, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kRequests = 5;
    for (int round = 0; round < 6; ++round) {
      std::vector<Sum> sums;
      sums.reserve(kRequests);
      for (size_t i = 0; i < kRequests; ++i) {
        sums.emplace_back(comm, i % 2 == 0 ? 10 : 50000);
        sums[i].fill(self, static_cast<int64_t>(i));
        self.expect_ok(banyan_request_start(sums[i].request), "start");
      }
      std::vector<size_t> order(kRequests);
      std::iota(order.begin(), order.end(), size_t{0});
      // Another order on every rank.
      std::rotate(order.begin(), order.begin() + (self.rank() + round) % 5, order.end());
      if (round % 2 == 1) std::reverse(order.begin(), order.end());
      for (const size_t i : order) self.expect_ok(banyan_request_wait(sums[i].request), "wait");
      for (size_t i = 0; i < kRequests; ++i) {
        sums[i].check(self, static_cast<int64_t>(i));
        self.expect_ok(banyan_request_destroy(sums[i].request), "destroy");
      }
    }
  });
}

TEST_P(Requests, AreDrivenByTests) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Sum small(comm, 1), large(comm, 300000);
    for (Sum* sum : {&large, &small}) {
      sum->fill(self, 7);
      self.expect_ok(banyan_request_start(sum->request), "start");
    }
    for (Sum* sum : {&small, &large}) {
      int done = 0;
      self.wait_until([&] {
        for (int i = 0; i < 100 && done == 0; ++i)
          if (!self.expect_ok(banyan_request_test(sum->request, &done), "test")) return true;
        return done == 1;
      });
      self.expect(done == 1, "a request that is tested is done some time");
      sum->check(self, 7);
    }
    for (Sum* sum : {&large, &small})
      self.expect_ok(banyan_request_destroy(sum->request), "destroy");
  });
}

// Rank 0 starts and goes away into other work; the others need its part of the ring.
TEST_P(Requests, GoOnWhenNobodyWaits) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    Sum sum(comm, 400000);
    for (int64_t round = 0; round < 3; ++round) {
      sum.fill(self, round);
      self.expect_ok(banyan_request_start(sum.request), "start");
      if (self.rank() == 0) {
        self.meet();  // the others are done; this rank has called nothing since
        self.expect_ok(banyan_request_wait(sum.request), "wait, late");
      } else {
        self.where("waits for a rank that does not call");
        self.expect_ok(banyan_request_wait(sum.request), "wait");
        self.meet();
      }
      sum.check(self, round);
    }
    self.expect_ok(banyan_request_destroy(sum.request), "destroy");
  });
}

TEST_P(Requests, RefuseWrongMoments) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    Sum sum(comm, 10);
    sum.fill(self, 1);
    self.expect_code(banyan_request_wait(sum.request), BANYAN_ERR_INVALID_USAGE,
                     "wait before start");
    if (self.rank() == 0) {  // rank 1 has not started, so this one stays in flight
      self.expect_ok(banyan_request_start(sum.request), "start");
      self.expect_code(banyan_request_start(sum.request), BANYAN_ERR_INVALID_USAGE,
                       "start in flight");
      self.expect_code(banyan_request_destroy(sum.request), BANYAN_ERR_INVALID_USAGE,
                       "destroy in flight");
      int done = 1;
      self.expect_ok(banyan_request_test(sum.request, &done), "test in flight");
      self.expect(done == 0, "not done before rank 1 starts");
      self.expect_code(banyan_comm_destroy(comm), BANYAN_ERR_INVALID_USAGE,
                       "destroy of a communicator with a request in flight");
    }
    self.meet();
    if (self.rank() == 1) self.expect_ok(banyan_request_start(sum.request), "start");
    self.expect_ok(banyan_request_wait(sum.request), "wait");
    sum.check(self, 1);
    self.expect_ok(banyan_request_destroy(sum.request), "destroy");
    self.expect_code(banyan_request_destroy(sum.request), BANYAN_ERR_INVALID_ARGUMENT,
                     "destroy twice");
  });
}

// Blocking calls between start and wait, and finalize with a request in flight.
TEST_P(Requests, MixWithBlockingCallsAndFinalize) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Sum first(comm, 20000), second(comm, 3);
    first.fill(self, 1);
    second.fill(self, 2);
    self.expect_ok(banyan_request_start(first.request), "start");
    self.verify(comm, 1000, 1);
    self.expect_ok(banyan_request_start(second.request), "start");
    self.expect_ok(banyan_barrier(comm), "barrier");
    self.expect_ok(banyan_comm_finalize(comm), "finalize completes what is in flight");
    first.check(self, 1);
    second.check(self, 2);
    for (Sum* sum : {&first, &second}) {
      self.expect_ok(banyan_request_wait(sum->request), "wait after finalize");
      self.expect_ok(banyan_request_destroy(sum->request), "destroy");
    }
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// The call and its lists may be changed after creation.
TEST_P(Requests, KeepTheirOwnLists) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    std::vector<size_t> counts{2, 3}, displacements{4, 0};
    const std::vector<int32_t> send(3, self.rank() + 1);
    std::vector<int32_t> recv(6, 0);
    banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.collective = BANYAN_ALLGATHERV;
      c.send = send.data();
      c.recv = recv.data();
      c.count = counts[static_cast<size_t>(self.rank())];
      c.recv_counts = counts.data();
      c.recv_displacements = displacements.data();
      c.datatype = BANYAN_INT32;
    });
    banyan_request_t request = nullptr;
    if (!self.expect_ok(banyan_request_create(comm, &call, &request), "create")) return;
    counts = {99, 99};
    displacements = {99, 99};
    call = BANYAN_CALL_INIT;
    self.expect_ok(banyan_request_start(request), "start");
    self.expect_ok(banyan_request_wait(request), "wait");
    self.expect(recv == std::vector<int32_t>{2, 2, 2, 0, 1, 1}, "blocks where they were asked for");
    self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

// Two threads drive a communicator each, over the same ranks.
TEST_P(Requests, DoNotMindAnotherThreadWithAnotherCommunicator) {
  run(2, [](Rank& self) {
    banyan_comm_t comms[2] = {self.join(), nullptr};
    if (comms[0] == nullptr) return;
    comms[1] = self.join();
    if (comms[1] == nullptr) return;
    std::vector<std::thread> threads;
    for (banyan_comm_t comm : comms)
      threads.emplace_back([&self, comm] {
        for (uint64_t round = 0; round < 40; ++round) self.verify(comm, 1 + round * 97, round);
      });
    for (std::thread& thread : threads) thread.join();
    self.leave(comms[0]);
    self.leave(comms[1]);
  });
}

#if defined(__x86_64__)
// Whoever computes, the caller or the thread that works while nobody waits: a caller that flushes
// subnormals to zero gets the same bits, and keeps its mode.
TEST_P(Requests, GiveTheSameBitsInAnyFloatMode) {
  const auto body = [](Rank& self, banyan_comm_t comm) {
    constexpr unsigned kFlushes = 0x8040;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | kFlushes);
    const auto bits_of = [](float value) { return std::bit_cast<uint32_t>(value); };
    const float tiny = std::bit_cast<float>(uint32_t{70'000});
    for (const size_t count : {size_t{10}, size_t{100'000}})
      for (const bool waits : {true, false}) {
        const std::vector<float> send(count, tiny);
        std::vector<float> recv(count);
        const banyan_call_t call = call_of([&](banyan_call_t& c) {
          c.send = send.data();
          c.recv = recv.data();
          c.count = count;
        });
        banyan_request_t request = nullptr;
        self.expect_ok(banyan_request_create(comm, &call, &request), "create");
        self.expect_ok(banyan_request_start(request), "start");
        // Long enough for the thread that works while nobody waits to take the request over.
        if (!waits || self.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        self.expect_ok(banyan_request_wait(request), "wait");
        self.expect(bits_of(recv[count / 2]) == 140'000,
                    fmt::format("the sum has the bits {}", bits_of(recv[count / 2])));
        for (int again = 0; again < 4; ++again) {  // checked, then known
          self.expect_ok(
              banyan_allreduce(send.data(), recv.data(), count, BANYAN_FLOAT32, BANYAN_SUM, comm),
              "allreduce");
          self.expect(bits_of(recv[0]) == 140'000, "a blocking sum has other bits");
        }
        self.expect_ok(banyan_request_destroy(request), "destroy");
      }
    self.expect((_mm_getcsr() & kFlushes) == kFlushes, "the caller's mode is another one");
    _mm_setcsr(before);
  };
  for (const TransportState& transport : transport_states()) {
    const bool network = transport.name == "ucx";  // whose messages may be summed as it is armed
    if (transport.missing.empty() && transport.name != "loopback" && !(network && kThreadSanitizer))
      run_joined(2, body, {.environment = {{"BANYAN_TRANSPORTS", std::string(transport.name)}}});
  }
}
#endif

// Others find the failure in their requests, too, and may clean up.
TEST_P(Requests, FailWithTheirCommunicator) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Sum sum(comm, 1000);
    sum.fill(self, 1);
    self.meet();  // all requests are made
    if (self.rank() == 1) {
      self.expect_ok(banyan_comm_abort(comm), "abort");
      self.expect_code(banyan_request_start(sum.request), BANYAN_ERR_ABORTED, "start after abort");
    } else {
      const banyan_result_t started = banyan_request_start(sum.request);
      if (started == BANYAN_SUCCESS)
        self.expect_code(banyan_request_wait(sum.request), BANYAN_ERR_PEER_LOST, "wait");
      else
        self.expect_code(started, BANYAN_ERR_PEER_LOST, "start");
      int failed = -2;
      self.expect_ok(banyan_comm_failed_rank(comm, &failed), "failed_rank");
      self.expect(failed == 1, fmt::format("failed_rank is {}", failed));
    }
    self.expect_ok(banyan_request_destroy(sum.request), "destroy of the request");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Requests, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::requests_test
