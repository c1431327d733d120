// Groups hold messages: exchanges in any order, to oneself, nested, refused as a whole, over
// several communicators.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <vector>

#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::groups_test {
namespace {

class Groups : public WithRanks {};

int64_t word(int from, int to, int salt) {
  return 1000000 * salt + 1000 * from + to;
}

// Everybody with everybody, itself included: sends in one order and receives in another.
void exchange(Rank& self, banyan_comm_t comm, size_t count, int salt) {
  const auto size = static_cast<size_t>(self.size());
  std::vector<std::vector<int64_t>> out(size), in(size);
  for (int peer = 0; peer < self.size(); ++peer) {
    out[static_cast<size_t>(peer)].assign(count, word(self.rank(), peer, salt));
    in[static_cast<size_t>(peer)].assign(count, -1);
  }
  self.expect_ok(banyan_group_start(), "group_start");
  for (int peer = 0; peer < self.size(); ++peer)
    self.expect_ok(
        banyan_send(out[static_cast<size_t>(peer)].data(), count, BANYAN_INT64, peer, comm),
        "send in a group");
  for (int peer = self.size() - 1; peer >= 0; --peer)
    self.expect_ok(
        banyan_recv(in[static_cast<size_t>(peer)].data(), count, BANYAN_INT64, peer, comm),
        "receive in a group");
  self.expect_ok(banyan_group_end(), "group_end");
  for (int peer = 0; peer < self.size(); ++peer)
    for (const int64_t got : in[static_cast<size_t>(peer)])
      if (got != word(peer, self.rank(), salt))
        return self.fail(fmt::format("from rank {}: {}", peer, got));
}

TEST_P(Groups, ExchangeWithEverybodyAndOneself) {
  for (const int size : {1, 2, 4})
    run_joined(size, [](Rank& self, banyan_comm_t comm) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{200000}})
        exchange(self, comm, count, static_cast<int>(count % 89));
    });
}

TEST_P(Groups, MayBeNested) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    self.expect_ok(banyan_group_start(), "outer start");
    exchange(self, comm, 0, 1);  // complete at the outer end only, and of nothing
    int64_t sum = self.rank();
    self.expect_ok(banyan_group_start(), "inner start");
    self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_INT64, BANYAN_SUM, comm), "allreduce");
    self.expect_ok(banyan_group_end(), "inner end");
    self.expect(sum == self.rank(), "nothing moves before the outer end");
    self.expect_ok(banyan_group_end(), "outer end");
    self.expect(sum == 3, fmt::format("the sum is {}", sum));
    self.expect_code(banyan_group_end(), BANYAN_ERR_INVALID_USAGE, "one end too many");
  });
}

TEST_P(Groups, WithAnErrorInsideMoveNothing) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    const int other = 1 - self.rank();
    banyan_request_t stale = nullptr, made = nullptr;
    banyan_call_t call = BANYAN_CALL_INIT;
    self.expect_ok(banyan_request_create(comm, &call, &stale), "create");
    self.expect_ok(banyan_request_destroy(stale), "destroy");
    call.size = 0;
    const banyan_unique_id_t id{};
    for (int kind = 0; kind < 15; ++kind) {
      int32_t out = self.rank() + 1, in = -1, sum = 5;
      self.expect_ok(banyan_group_start(), "group_start");
      self.expect_ok(banyan_send(&out, 1, BANYAN_INT32, other, comm), "send");
      banyan_result_t wrong = BANYAN_SUCCESS, wanted = BANYAN_ERR_INVALID_ARGUMENT;
      if (kind == 0) wrong = banyan_recv(&in, 1, BANYAN_INT32, 2, comm);
      if (kind == 1) wrong = banyan_allreduce(nullptr, &sum, 1, BANYAN_INT32, BANYAN_SUM, comm);
      if (kind == 2) wrong = banyan_comm_finalize(comm);
      // What no group may have is refused before its arguments are looked at.
      banyan_comm_t child = comm;
      if (kind == 3) wrong = banyan_comm_split(comm, 0, 0, &child, nullptr);
      if (kind == 4) wrong = banyan_comm_split(comm, -5, 0, &child, nullptr);
      if (kind == 5) wrong = banyan_comm_split(comm, 0, 0, nullptr, nullptr);
      if (kind == 6) wrong = banyan_comm_split(nullptr, 0, 0, &child, nullptr);
      if (kind == 7) wrong = banyan_comm_finalize(nullptr);
      if (kind == 8) wrong = banyan_request_wait(stale);
      if (kind == 9) wrong = banyan_comm_init(&child, 1, &id, 7, nullptr);
      if (kind == 10) wrong = banyan_comm_init_exchange(&child, nullptr, nullptr);
      if (kind >= 2) wanted = BANYAN_ERR_INVALID_USAGE;
      if (kind == 3 || kind == 4 || kind == 6 || kind == 9 || kind == 10)
        self.expect(child == nullptr, "no communicator after a failure");
      if (kind >= 11) wanted = BANYAN_ERR_INVALID_ARGUMENT;
      if (kind == 11) wrong = banyan_request_create(comm, &call, &made);
      if (kind == 12) wrong = banyan_request_start(stale);
      if (kind == 13) wrong = banyan_mem_alloc(comm, nullptr, 8);
      if (kind == 14) wrong = banyan_comm_rank(comm, nullptr);
      self.expect_code(wrong, wanted, fmt::format("wrong call {}", kind));
      self.expect_ok(banyan_recv(&in, 1, BANYAN_INT32, other, comm), "receive");
      self.expect_code(banyan_group_end(), wanted, "group_end repeats it");
      self.expect(in == -1 && sum == 5, "nothing has moved");
    }
    exchange(self, comm, 10, 3);  // nothing is left over of the messages before
    self.verify(comm, 100, 1);
  });
}

TEST_P(Groups, WithAMessageToOneselfNeedBothEnds) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    int32_t value = 1, other = -1;
    self.expect_code(banyan_send(&value, 1, BANYAN_INT32, self.rank(), comm),
                     BANYAN_ERR_INVALID_USAGE, "send to oneself outside a group");
    self.expect_code(banyan_recv(&other, 1, BANYAN_INT32, self.rank(), comm),
                     BANYAN_ERR_INVALID_USAGE, "receive from oneself outside a group");
    self.expect_ok(banyan_group_start(), "group_start");
    self.expect_ok(banyan_send(&value, 1, BANYAN_INT32, self.rank(), comm), "send");
    self.expect(banyan_group_end() != BANYAN_SUCCESS, "a send to oneself that nobody receives");
    self.verify(comm, 10, 1);
  });
}

// One rank names the communicators in another order than the other: no deadlock.
TEST_P(Groups, TakeTwoCommunicatorsInAnyOrder) {
  run(2, [](Rank& self) {
    banyan_comm_t comms[2] = {self.join(), nullptr};
    if (comms[0] == nullptr) return;
    comms[1] = self.join();
    if (comms[1] == nullptr) return;
    constexpr size_t kCount = 100000;
    for (int64_t round = 0; round < 5; ++round) {
      std::vector<int64_t> values[2];
      self.expect_ok(banyan_group_start(), "group_start");
      for (int i = 0; i < 2; ++i) {
        const auto which = static_cast<size_t>(i ^ self.rank());
        values[which].assign(kCount, round + static_cast<int64_t>(which));
        self.expect_ok(banyan_allreduce(values[which].data(), values[which].data(), kCount,
                                        BANYAN_INT64, BANYAN_SUM, comms[which]),
                       "allreduce in a group");
      }
      self.expect_ok(banyan_group_end(), "group_end");
      for (size_t which = 0; which < 2; ++which)
        self.expect(values[which].front() == 2 * (round + static_cast<int64_t>(which)) &&
                        values[which].back() == values[which].front(),
                    "the sum of one communicator");
    }
    self.leave(comms[1]);
    self.leave(comms[0]);
  });
}

// What a finished request has returned stands until it is started again.
TEST_P(Groups, ThatFailLeaveRequestsAsTheyWere) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    int32_t sum = 1;
    const banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = &sum;
      c.count = 1;
      c.datatype = BANYAN_INT32;
    });
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    for (const bool finished : {false, true}) {
      self.expect_ok(banyan_group_start(), "group_start");
      self.expect_ok(banyan_request_start(request), "start");
      int done = 1;
      self.expect_ok(banyan_request_test(request, &done), "test in the group");
      self.expect(done == 0, "not done in the group");
      self.expect_code(banyan_barrier(nullptr), BANYAN_ERR_INVALID_ARGUMENT, "a wrong call");
      self.expect_code(banyan_group_end(), BANYAN_ERR_INVALID_ARGUMENT, "group_end");
      const banyan_result_t wanted = finished ? BANYAN_SUCCESS : BANYAN_ERR_INVALID_USAGE;
      self.expect_code(banyan_request_wait(request), wanted, "wait after the group");
      self.expect_code(banyan_request_test(request, &done), wanted, "test after the group");
      self.expect(done == (finished ? 1 : 0), "done after the group");
      self.expect(sum == (finished ? 2 : 1), "nothing has moved");
      if (finished) break;
      self.expect_ok(banyan_request_start(request), "start");
      self.expect_ok(banyan_request_wait(request), "wait");
    }
    self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

TEST_P(Groups, StartRequestsToo) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    int32_t out = self.rank() + 10, in = -1, sum = 1;
    banyan_request_t requests[2] = {nullptr, nullptr};
    const banyan_call_t send = call_of([&](banyan_call_t& c) {
      c.collective = BANYAN_SEND;
      c.send = &out;
      c.count = 1;
      c.datatype = BANYAN_INT32;
      c.root = 1 - self.rank();
    });
    const banyan_call_t receive = call_of([&](banyan_call_t& c) {
      c = send;
      c.collective = BANYAN_RECV;
      c.recv = &in;
    });
    self.expect_ok(banyan_request_create(comm, &send, &requests[0]), "create");
    self.expect_ok(banyan_request_create(comm, &receive, &requests[1]), "create");
    for (int round = 0; round < 3; ++round) {
      in = -1;
      sum = 1;
      self.expect_ok(banyan_group_start(), "group_start");
      self.expect_ok(banyan_request_start(requests[0]), "start send");
      self.expect_ok(banyan_request_start(requests[1]), "start receive");
      self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_INT32, BANYAN_SUM, comm), "allreduce");
      self.expect_code(banyan_request_start(requests[0]), BANYAN_ERR_INVALID_USAGE,
                       "start twice in a group");
      self.expect_code(banyan_group_end(), BANYAN_ERR_INVALID_USAGE, "group_end repeats it");
      self.expect(in == -1 && sum == 1, "nothing has moved");

      self.expect_ok(banyan_group_start(), "group_start");
      self.expect_ok(banyan_request_start(requests[0]), "start send");
      self.expect_ok(banyan_request_start(requests[1]), "start receive");
      self.expect_ok(banyan_allreduce(&sum, &sum, 1, BANYAN_INT32, BANYAN_SUM, comm), "allreduce");
      self.expect_ok(banyan_group_end(), "group_end");
      self.expect(sum == 2, "the sum is there after the end");
      for (banyan_request_t request : requests)
        self.expect_ok(banyan_request_wait(request), "wait after the group");
      self.expect(in == 11 - self.rank(), fmt::format("received {}", in));
    }
    for (banyan_request_t request : requests)
      self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

TEST_P(Groups, LeaveTheOrderOfMessagesAlone) {
  run_joined(2, [](Rank& self, banyan_comm_t comm) {
    constexpr int kMessages = 100;
    const int other = 1 - self.rank();
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < kMessages; ++i) {
        const auto count = static_cast<size_t>(1 + (i * 7919) % 3000);
        std::vector<int32_t> data(count, i);
        if (half == self.rank()) {
          if (!self.expect_ok(banyan_send(data.data(), count, BANYAN_INT32, other, comm), "send"))
            return;
          continue;
        }
        std::fill(data.begin(), data.end(), -1);
        if (!self.expect_ok(banyan_recv(data.data(), count, BANYAN_INT32, other, comm), "receive"))
          return;
        self.expect(data.front() == i && data.back() == i, fmt::format("message {}", i));
      }
  });
}

// Messages and collectives use lanes of their own.
TEST_P(Groups, LetMessagesPassCollectives) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    int64_t values[2] = {self.rank(), self.rank()};
    const banyan_call_t call = call_of([&](banyan_call_t& c) {
      c.send = c.recv = values;
      c.count = 2;
      c.datatype = BANYAN_INT64;
    });
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    int64_t word = 42;
    if (self.rank() != 2) self.expect_ok(banyan_request_start(request), "start");
    if (self.rank() == 0) self.expect_ok(banyan_send(&word, 1, BANYAN_INT64, 2, comm), "send");
    if (self.rank() == 2) {
      word = 0;
      self.expect_ok(banyan_recv(&word, 1, BANYAN_INT64, 0, comm), "receive");
      self.expect(word == 42, "the word that was sent");
      self.expect_ok(banyan_request_start(request), "start");
    }
    self.expect_ok(banyan_request_wait(request), "wait");
    self.expect(values[0] == 3 && values[1] == 3, "the sum");
    self.expect_ok(banyan_request_destroy(request), "destroy");
  });
}

// A communicator that is destroyed while a group names it is not touched afterwards.
TEST_P(Groups, SurviveTheEndOfACommunicator) {
  run(2, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    int32_t value = 1;
    self.expect_ok(banyan_group_start(), "group_start");
    self.expect_ok(banyan_allreduce(&value, &value, 1, BANYAN_INT32, BANYAN_SUM, comm),
                   "allreduce");
    self.meet();  // nobody aborts before everybody has made the call
    self.meet();
    self.expect_ok(banyan_comm_abort(comm), "abort");
    const bool gone = banyan_comm_destroy(comm) == BANYAN_SUCCESS;
    self.expect(banyan_group_end() != BANYAN_SUCCESS, "a group with an aborted communicator ends");
    if (!gone) self.expect_ok(banyan_comm_destroy(comm), "destroy after the group");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Groups, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::groups_test
