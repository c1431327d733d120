// The C interface is tested on a communicator of one rank: errors, structs, handles and what
// belongs to it. What arguments are refused is in arguments_test.cc.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/bootstrap/rendezvous_socket.h"
#include "src/c_api/handles.h"
#include "tests/c_api/c_api_fixture.h"
#include "tests/support/variable.h"

namespace banyan::test::c_api_test {
namespace {

TEST(Results, HaveNames) {
  std::set<std::string> names;
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 32, 33, 34, 35, 36, 37})
    EXPECT_TRUE(names.insert(banyan_result_string(static_cast<banyan_result_t>(code))).second);
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_STREQ(banyan_result_string(BANYAN_ERR_INVALID_ARGUMENT), "invalid argument");
  EXPECT_NE(banyan_result_string(static_cast<banyan_result_t>(60)), nullptr);
  EXPECT_GE(banyan_version(), 0);
}

TEST_F(CApi, LastErrorStaysValidUntilAskedAgain) {
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, comm_), "7");
  const char* kept = banyan_last_error(nullptr);
  const std::string before = kept;
  EXPECT_NE(banyan_allreduce(nullptr, nullptr, std::numeric_limits<size_t>::max() / 8,
                             BANYAN_FLOAT32, 99, comm_),
            BANYAN_SUCCESS);
  EXPECT_EQ(kept, before) << "the text changed before banyan_last_error was called again";
  EXPECT_NE(banyan_last_error(nullptr), before);
}

TEST_F(CApi, LastErrorIsOfTheCommunicatorThatIsMeant) {
  banyan_comm_t other = make_comm();
  EXPECT_STREQ(banyan_last_error(other), "") << "nothing went wrong on it";
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, comm_), "7");
  const std::string text = banyan_last_error(comm_);
  EXPECT_NE(text.find('7'), std::string::npos) << text;
  EXPECT_STREQ(banyan_last_error(other), "") << "another communicator's error";
  const banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  ASSERT_EQ(banyan_request_create(comm_, &call, &request), BANYAN_SUCCESS);
  refused(banyan_request_wait(request), BANYAN_ERR_INVALID_USAGE, "started");
  EXPECT_STREQ(banyan_last_error(other), "") << "an error of another communicator's request";
  EXPECT_STRNE(banyan_last_error(comm_), "");
  ASSERT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_comm_abort(other), BANYAN_SUCCESS);
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, comm_), "7");
  EXPECT_NE(std::string(banyan_last_error(other)).find("abort"), std::string::npos)
      << banyan_last_error(other);
  EXPECT_EQ(banyan_comm_destroy(other), BANYAN_SUCCESS);
}

TEST_F(CApi, LastErrorNamesTheCommunicator) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.name = "trainer";
  banyan_comm_t child = nullptr;
  ASSERT_EQ(banyan_comm_split(comm_, 0, 0, &child, &config), BANYAN_SUCCESS);
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, child), " [trainer]");
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, comm_), " [communicator ");
  EXPECT_NE(std::string(banyan_last_error(child)).find(" [trainer]"), std::string::npos)
      << "forgotten for another communicator";
  ASSERT_EQ(banyan_comm_abort(child), BANYAN_SUCCESS);
  EXPECT_NE(std::string(banyan_last_error(child)).find(" [trainer]"), std::string::npos);
  EXPECT_EQ(banyan_comm_destroy(child), BANYAN_SUCCESS);
}

// An older error is not why a communicator has failed, nor is one of something else.
TEST_F(CApi, LastErrorOfAFailedCommunicatorIsItsFailure) {
  const auto says = [](banyan_comm_t comm, const char* word) {
    EXPECT_NE(std::string(banyan_last_error(comm)).find(word), std::string::npos)
        << banyan_last_error(comm);
  };
  banyan_comm_t comm = make_comm();
  refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, 77, comm), "77");
  says(comm, "77");
  refused(banyan_get_unique_id(nullptr), "id");
  says(comm, "77");
  refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, 77, comm), "77");
  ASSERT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS);
  says(comm, "abort");
  says(nullptr, "77");
  refused(banyan_get_unique_id(nullptr), "id");
  says(comm, "abort");
  says(nullptr, "id");
  refused(banyan_comm_rank(comm, nullptr), "rank is NULL");
  says(comm, "rank is NULL");  // later than the failure
  refused(banyan_barrier(comm), BANYAN_ERR_ABORTED, "abort");
  says(comm, "abort");
  refused(banyan_get_unique_id(nullptr), "id");
  ASSERT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
  says(comm, "id");  // of no communicator any more
}

TEST_F(CApi, LastErrorOfAGroupIsOfItsCommunicator) {
  const auto fail = [&] {
    ASSERT_EQ(banyan_group_start(), BANYAN_SUCCESS);
    refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, 77, comm_), "77");
    refused(banyan_group_end(), "77");
  };
  fail();
  EXPECT_NE(std::string(banyan_last_error(comm_)).find("77"), std::string::npos);
  refused(banyan_get_unique_id(nullptr), "id");
  ASSERT_EQ(banyan_group_start(), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_send(in_, 1, BANYAN_FLOAT32, 0, comm_), BANYAN_SUCCESS);
  refused(banyan_group_end(), BANYAN_ERR_INVALID_USAGE, "itself");
  EXPECT_NE(std::string(banyan_last_error(comm_)).find("itself"), std::string::npos)
      << "nothing was wrong before the end";
}

banyan_request_t finished_request(banyan_comm_t comm, const float* in, float* out) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = in;
  call.recv = out;
  call.count = 1;
  banyan_request_t request = nullptr;
  EXPECT_EQ(banyan_request_create(comm, &call, &request), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_request_wait(request), BANYAN_SUCCESS);
  return request;
}

TEST_F(CApi, ARequestThatCannotStartAgainHasNotSucceeded) {
  for (const bool grouped : {false, true}) {
    banyan_comm_t comm = make_comm();
    banyan_request_t request = finished_request(comm, in_, out_);
    ASSERT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_request_wait(request), BANYAN_SUCCESS) << "that one had ended well";
    if (grouped) {
      ASSERT_EQ(banyan_group_start(), BANYAN_SUCCESS);
    }
    refused(banyan_request_start(request), BANYAN_ERR_ABORTED, "abort");
    if (grouped) refused(banyan_group_end(), BANYAN_ERR_ABORTED, "abort");
    refused(banyan_request_wait(request), BANYAN_ERR_ABORTED, "abort");
    int done = 0;
    refused(banyan_request_test(request, &done), BANYAN_ERR_ABORTED, "abort");
    EXPECT_EQ(done, 1);
    EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
  }
}

TEST_F(CApi, ARequestOfAGroupThatFailedHasNotSucceeded) {
  banyan_comm_t comm = make_comm();
  banyan_request_t request = finished_request(comm, in_, out_);
  ASSERT_EQ(banyan_group_start(), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS);
  refused(banyan_group_end(), BANYAN_ERR_ABORTED, "abort");
  refused(banyan_request_wait(request), BANYAN_ERR_ABORTED, "abort");
  EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

TEST_F(CApi, ARequestLeavesTheGroupOfAThreadThatEnds) {
  banyan_request_t request = finished_request(comm_, in_, out_);
  std::thread([&] {
    EXPECT_EQ(banyan_group_start(), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
  }).join();
  EXPECT_EQ(banyan_request_start(request), BANYAN_SUCCESS) << banyan_last_error(comm_);
  EXPECT_EQ(banyan_request_wait(request), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
}

TEST_F(CApi, NeverSaysThatItIsInProgress) {
  EXPECT_EQ(answer({Code::kBusy, "nobody came back"}, nullptr), BANYAN_ERR_INTERNAL);
  EXPECT_STREQ(banyan_last_error(nullptr), "nobody came back");
  Address loopback;
  loopback.ip = {127, 0, 0, 1};
  const Result<Listener> taken = listen_at(loopback, {});
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  const std::string port = std::to_string(taken->address.port);
  const test::Variable range("BANYAN_PORT_RANGE", port + "-" + port);
  banyan_unique_id_t id;
  banyan_comm_t child = nullptr;
  refused(banyan_get_unique_id(&id), BANYAN_ERR_SYSTEM, "BANYAN_PORT_RANGE=" + port);
  refused(banyan_comm_split(comm_, 0, 0, &child, nullptr), BANYAN_ERR_SYSTEM, port);
  EXPECT_EQ(child, nullptr);
}

TEST_F(CApi, LastErrorIsOfItsThread) {
  refused(banyan_broadcast(in_, out_, 1, BANYAN_FLOAT32, 7, comm_), "7");
  std::thread([] {
    EXPECT_STREQ(banyan_last_error(nullptr), "");
    EXPECT_EQ(banyan_comm_rank(nullptr, nullptr), BANYAN_ERR_INVALID_ARGUMENT);
    EXPECT_STRNE(banyan_last_error(nullptr), "");
  }).join();
  EXPECT_NE(std::string(banyan_last_error(nullptr)).find('7'), std::string::npos);
}

// A struct as an older or newer header has it.
template <typename Struct>
struct Grown {
  Struct known;
  char tail[16];
};

template <typename Struct>
void check_sizes(const Struct& good, const std::function<banyan_result_t(const Struct*)>& use) {
  Grown<Struct> grown{};
  grown.known = good;
  grown.known.size = 0;
  EXPECT_EQ(use(&grown.known), BANYAN_ERR_INVALID_ARGUMENT) << "size 0";
  grown.known.size = sizeof grown;
  EXPECT_EQ(use(&grown.known), BANYAN_SUCCESS) << "a tail of zeros: " << banyan_last_error(nullptr);
  grown.tail[15] = 1;
  EXPECT_EQ(use(&grown.known), BANYAN_ERR_UNSUPPORTED) << "an unknown tail";
  grown.known.size = sizeof(Struct);
  EXPECT_EQ(use(&grown.known), BANYAN_SUCCESS) << "the tail is not looked at";
}

TEST_F(CApi, TakesStructsOfOtherHeaders) {
  const banyan_call_t call = BANYAN_CALL_INIT;
  const auto create = [&](const banyan_call_t* given) {
    banyan_request_t request = nullptr;
    const banyan_result_t result = banyan_request_create(comm_, given, &request);
    if (result == BANYAN_SUCCESS) banyan_request_destroy(request);
    return result;
  };
  check_sizes<banyan_call_t>(call, create);
  banyan_call_t older = BANYAN_CALL_INIT;
  older.size = offsetof(banyan_call_t, timeout_s);
  older.timeout_s = -5;  // not in an older header, so not looked at
  EXPECT_EQ(create(&older), BANYAN_SUCCESS) << banyan_last_error(nullptr);

  const banyan_config_t config = BANYAN_CONFIG_INIT;
  check_sizes<banyan_config_t>(config, [](const banyan_config_t* given) {
    banyan_unique_id_t id;
    banyan_comm_t made = nullptr;
    EXPECT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
    const banyan_result_t result = banyan_comm_init(&made, 1, &id, 0, given);
    if (result == BANYAN_SUCCESS) {
      EXPECT_EQ(banyan_comm_finalize(made), BANYAN_SUCCESS);
      EXPECT_EQ(banyan_comm_destroy(made), BANYAN_SUCCESS);
    } else {
      EXPECT_EQ(made, nullptr);
    }
    return result;
  });
}

TEST_F(CApi, RecognisesDestroyedHandles) {
  banyan_comm_t gone = make_comm();
  banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  ASSERT_EQ(banyan_request_create(gone, &call, &request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_request_wait(request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_comm_finalize(gone), BANYAN_SUCCESS);
  ASSERT_EQ(banyan_comm_destroy(gone), BANYAN_SUCCESS);
  banyan_comm_t fresh = make_comm();  // in the same place, perhaps
  int number = 0;
  banyan_result_t error = BANYAN_SUCCESS;
  void* memory = nullptr;
  banyan_op_t op = 0;
  size_t bytes = 0;
  float scalar = 1;
  int local = 0;
  for (banyan_comm_t comm :
       {gone, static_cast<banyan_comm_t>(nullptr), reinterpret_cast<banyan_comm_t>(&local)}) {
    refused(banyan_comm_rank(comm, &number), "comm");
    refused(banyan_comm_size(comm, &number), "comm");
    refused(banyan_comm_failed_rank(comm, &number), "comm");
    refused(banyan_comm_async_error(comm, &error), "comm");
    refused(banyan_comm_abort(comm), "comm");
    refused(banyan_comm_finalize(comm), "comm");
    if (comm != nullptr) refused(banyan_comm_destroy(comm), "comm");
    refused(banyan_barrier(comm), "comm");
    refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, BANYAN_SUM, comm), "comm");
    refused(banyan_mem_alloc(comm, &memory, 8), "comm");
    refused(banyan_mem_free(comm, &local), "comm");
    refused(banyan_op_create_premulsum(comm, &scalar, BANYAN_FLOAT32, &op), "comm");
    refused(banyan_op_destroy(comm, 9), "comm");
    refused(banyan_request_create(comm, &call, &request), "comm");
    refused(banyan_explain(comm, &call, nullptr, &bytes), "comm");
    banyan_comm_t child = nullptr;
    refused(banyan_comm_split(comm, 0, 0, &child, nullptr), "comm");
    EXPECT_NE(banyan_last_error(comm), nullptr);
  }
  refused(banyan_request_wait(request), "request");
  int done = 0;
  refused(banyan_request_test(request, &done), "request");
  refused(banyan_request_start(request), "request");
  refused(banyan_request_destroy(request), "request");
  EXPECT_EQ(banyan_comm_abort(fresh), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(fresh), BANYAN_SUCCESS);
}

TEST_F(CApi, EndsInTheRightOrderOnly) {
  banyan_comm_t comm = make_comm();
  refused(banyan_comm_destroy(comm), BANYAN_ERR_INVALID_USAGE, "final");
  EXPECT_EQ(banyan_barrier(comm), BANYAN_SUCCESS) << "nothing was freed";
  EXPECT_EQ(banyan_comm_finalize(comm), BANYAN_SUCCESS);
  refused(banyan_barrier(comm), BANYAN_ERR_INVALID_USAGE, "finalized");
  refused(banyan_comm_finalize(comm), BANYAN_ERR_INVALID_USAGE, "finalized");
  EXPECT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS) << "any time";
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);

  comm = make_comm();
  int rank = 5;
  banyan_result_t error = BANYAN_ERR_INTERNAL;
  EXPECT_EQ(banyan_comm_async_error(comm, &error), BANYAN_SUCCESS);
  EXPECT_EQ(error, BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_failed_rank(comm, &rank), BANYAN_SUCCESS);
  EXPECT_EQ(rank, -1);
  for (int time = 0; time < 3; ++time) EXPECT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS);
  refused(banyan_barrier(comm), BANYAN_ERR_ABORTED, "abort");
  refused(banyan_comm_finalize(comm), BANYAN_ERR_ABORTED, "abort");
  EXPECT_EQ(banyan_comm_async_error(comm, &error), BANYAN_SUCCESS);
  EXPECT_EQ(error, BANYAN_ERR_ABORTED);
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

TEST_F(CApi, GivesAlignedMemoryAndTakesBackItsOwnOnly) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{3} << 20}) {
    void* memory = nullptr;
    ASSERT_EQ(banyan_mem_alloc(comm_, &memory, bytes), BANYAN_SUCCESS) << banyan_last_error(comm_);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::memset(memory, 1, bytes);
    EXPECT_EQ(banyan_allreduce(memory, memory, bytes / 4, BANYAN_INT32, BANYAN_SUM, comm_),
              BANYAN_SUCCESS);
    EXPECT_EQ(banyan_mem_free(comm_, memory), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_mem_free(comm_, memory), BANYAN_ERR_INVALID_ARGUMENT) << "freed twice";
  }
  refused(banyan_mem_free(comm_, in_), "memory");
  void* huge = nullptr;
  EXPECT_NE(banyan_mem_alloc(comm_, &huge, SIZE_MAX), BANYAN_SUCCESS);
  EXPECT_NE(banyan_mem_alloc(comm_, &huge, SIZE_MAX / 2), BANYAN_SUCCESS);
  EXPECT_EQ(huge, nullptr);
  void* left = nullptr;  // freed with the communicator
  EXPECT_EQ(banyan_mem_alloc(comm_, &left, 1000), BANYAN_SUCCESS);
}

TEST_F(CApi, KeepsOperationsToTheirCommunicatorAndType) {
  banyan_comm_t other = make_comm();
  float scalar = 2;
  banyan_op_t op = -1;
  ASSERT_EQ(banyan_op_create_premulsum(comm_, &scalar, BANYAN_FLOAT32, &op), BANYAN_SUCCESS);
  EXPECT_GT(op, 4);
  scalar = 100;  // read at creation
  in_[0] = 3;
  EXPECT_EQ(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, op, comm_), BANYAN_SUCCESS);
  EXPECT_EQ(out_[0], 6);
  refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT64, op, comm_), "type");
  refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, op, other), "op");
  refused(banyan_op_destroy(other, op), "op");
  refused(banyan_op_destroy(comm_, BANYAN_SUM), "op");
  EXPECT_EQ(banyan_op_destroy(comm_, op), BANYAN_SUCCESS);
  refused(banyan_op_destroy(comm_, op), "op");
  refused(banyan_allreduce(in_, out_, 1, BANYAN_FLOAT32, op, comm_), "op");
  refused(banyan_op_create_premulsum(comm_, &scalar, type_of(40), &op), "40");
  EXPECT_EQ(banyan_comm_abort(other), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(other), BANYAN_SUCCESS);
}

TEST_F(CApi, ExplainSaysHowMuchRoomItNeeds) {
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = in_;
  call.recv = out_;
  call.count = 16;
  size_t bytes = 0;
  ASSERT_EQ(banyan_explain(comm_, &call, nullptr, &bytes), BANYAN_SUCCESS)
      << banyan_last_error(comm_);
  ASSERT_GT(bytes, 1u);
  std::vector<char> text(bytes + 8, '?');
  size_t room = bytes;
  ASSERT_EQ(banyan_explain(comm_, &call, text.data(), &room), BANYAN_SUCCESS);
  EXPECT_EQ(room, bytes);
  EXPECT_EQ(std::strlen(text.data()) + 1, bytes);
  EXPECT_EQ(text[bytes], '?');
  const std::string whole = text.data();
  for (const size_t little : {size_t{1}, size_t{2}, bytes - 1}) {
    std::fill(text.begin(), text.end(), '?');
    room = little;
    ASSERT_EQ(banyan_explain(comm_, &call, text.data(), &room), BANYAN_SUCCESS);
    EXPECT_EQ(room, bytes) << "what all of it takes";
    EXPECT_EQ(std::string(text.data()), whole.substr(0, little - 1));
    EXPECT_EQ(text[little], '?') << "written beyond its room";
  }
  room = 10;
  refused(banyan_explain(comm_, &call, nullptr, &room), "text");
  call.root = 9;
  call.collective = BANYAN_REDUCE;
  room = 0;
  refused(banyan_explain(comm_, &call, nullptr, &room), "9");
}

// Makes every kind of call that needs a communicator that works.
void refuses_all(banyan_comm_t comm, banyan_result_t with) {
  float number = 1;
  void* memory = nullptr;
  banyan_op_t op = 0;
  EXPECT_EQ(banyan_allreduce(&number, &number, 1, BANYAN_FLOAT32, BANYAN_SUM, comm), with);
  EXPECT_EQ(banyan_barrier(comm), with);
  EXPECT_EQ(banyan_mem_alloc(comm, &memory, 8), with);
  EXPECT_EQ(banyan_op_create_premulsum(comm, &number, BANYAN_FLOAT32, &op), with);
}

TEST_F(CApi, MakesNothingOnACommunicatorThatHasEnded) {
  for (const bool aborts : {false, true}) {
    banyan_comm_t comm = make_comm();
    EXPECT_EQ(aborts ? banyan_comm_abort(comm) : banyan_comm_finalize(comm), BANYAN_SUCCESS);
    refuses_all(comm, aborts ? BANYAN_ERR_ABORTED : BANYAN_ERR_INVALID_USAGE);
    EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
  }
}

}  // namespace
}  // namespace banyan::test::c_api_test
