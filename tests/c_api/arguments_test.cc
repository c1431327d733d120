// What the C interface refuses, with which sentence, and that the communicator works afterwards.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "tests/c_api/c_api_fixture.h"
#include "tests/support/addresses.h"

namespace banyan::test::arguments_test {
namespace {

class Arguments : public CApi {};

TEST_F(Arguments, RefusesNullPointers) {
  banyan_comm_t made = nullptr;
  banyan_unique_id_t id{};
  refused(banyan_get_unique_id(nullptr), "id");
  refused(banyan_comm_init(nullptr, 1, &id, 0, nullptr), "comm");
  refused(banyan_comm_init(&made, 1, nullptr, 0, nullptr), "id");
  refused(banyan_comm_init_env(nullptr, nullptr), "comm");
  refused(banyan_comm_init_exchange(nullptr, nullptr, nullptr), "comm");
  refused(banyan_comm_init_exchange(&made, nullptr, nullptr), "exchange");
  refused(banyan_comm_split(comm_, 0, 0, nullptr, nullptr), "child");
  refused(banyan_comm_rank(comm_, nullptr), "rank");
  refused(banyan_comm_size(comm_, nullptr), "size");
  refused(banyan_comm_async_error(comm_, nullptr), "error");
  refused(banyan_comm_failed_rank(comm_, nullptr), "rank");
  refused(banyan_mem_alloc(comm_, nullptr, 8), "memory");
  banyan_op_t op = 0;
  refused(banyan_op_create_premulsum(comm_, nullptr, BANYAN_FLOAT32, &op), "scalar");
  refused(banyan_op_create_premulsum(comm_, in_, BANYAN_FLOAT32, nullptr), "op");
  banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  refused(banyan_request_create(comm_, nullptr, &request), "call");
  refused(banyan_request_create(comm_, &call, nullptr), "request");
  refused(banyan_request_start(nullptr), "request");
  refused(banyan_request_wait(nullptr), "request");
  refused(banyan_request_destroy(nullptr), "request");
  refused(banyan_explain(comm_, &call, nullptr, nullptr), "bytes");
  refused(banyan_allreduce(nullptr, out_, 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "send");
  refused(banyan_allreduce(in_, nullptr, 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "recv");
  refused(banyan_allgatherv(in_, 4, out_, nullptr, nullptr, BANYAN_FLOAT32, comm_), "recv_counts");
  EXPECT_EQ(banyan_allreduce(nullptr, nullptr, 0, BANYAN_FLOAT32, BANYAN_SUM, comm_),
            BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(nullptr), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_mem_free(comm_, nullptr), BANYAN_SUCCESS);
}

TEST_F(Arguments, MakesNothingInAFailure) {
  const banyan_unique_id_t id{};
  banyan_comm_t made[4] = {comm_, comm_, comm_, comm_};
  refused(banyan_comm_init(&made[0], 1, &id, 0, nullptr), "id");
  EXPECT_NE(banyan_comm_init_env(&made[1], nullptr), BANYAN_SUCCESS);
  refused(banyan_comm_init_exchange(&made[2], nullptr, nullptr), "exchange");
  refused(banyan_comm_split(comm_, -2, 0, &made[3], nullptr), "-2");
  for (const banyan_comm_t each : made) EXPECT_EQ(each, nullptr);
  auto request = reinterpret_cast<banyan_request_t>(comm_);
  refused(banyan_request_create(comm_, nullptr, &request), "call");
  EXPECT_EQ(request, nullptr);
}

TEST_F(Arguments, LooksAtNoCountWhereThereAreLists) {
  const size_t counts[] = {4};
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = in_;
  call.recv = out_;
  call.count = SIZE_MAX;
  call.send_counts = call.recv_counts = counts;
  const size_t displacements[] = {0};
  call.send_displacements = call.recv_displacements = displacements;
  for (const auto collective : {BANYAN_REDUCE_SCATTERV, BANYAN_ALLTOALLV}) {
    call.collective = collective;
    banyan_request_t request = nullptr;
    EXPECT_EQ(banyan_request_create(comm_, &call, &request), BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  }
}

// It may lie anywhere by what the lists say, in whichever list, in a call or a request.
TEST_F(Arguments, LooksAtNoPlaceOfAnEmptyBlock) {
  const size_t none[] = {0}, some[] = {4}, nowhere[] = {SIZE_MAX}, far[] = {SIZE_MAX / 4};
  for (const size_t* places : {nowhere, far}) {
    EXPECT_EQ(banyan_alltoallv(in_, none, places, out_, none, places, BANYAN_FLOAT32, comm_),
              BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    EXPECT_EQ(banyan_alltoallv(nullptr, none, places, nullptr, none, nullptr, BANYAN_INT8, comm_),
              BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    EXPECT_EQ(banyan_allgatherv(in_, 0, out_, none, places, BANYAN_FLOAT64, comm_), BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    banyan_call_t call = BANYAN_CALL_INIT;
    call.collective = BANYAN_ALLTOALLV;
    call.send = in_;
    call.recv = out_;
    call.send_counts = call.recv_counts = none;
    call.send_displacements = call.recv_displacements = places;
    banyan_request_t request = nullptr;
    EXPECT_EQ(banyan_request_create(comm_, &call, &request), BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
      EXPECT_EQ(banyan_request_wait(request), BANYAN_SUCCESS) << banyan_last_error(comm_);
    }
    EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_group_start(), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_allgatherv(in_, 0, out_, none, places, BANYAN_FLOAT32, comm_), BANYAN_SUCCESS)
        << banyan_last_error(comm_);
    EXPECT_EQ(banyan_group_end(), BANYAN_SUCCESS) << banyan_last_error(comm_);
    refused(banyan_alltoallv(in_, some, places, out_, some, nullptr, BANYAN_FLOAT32, comm_),
            "send_counts[0] is 4 at displacement");
    refused(banyan_allgatherv(in_, 4, out_, some, places, BANYAN_FLOAT32, comm_),
            "recv_counts[0] is 4 at displacement");
  }
}

TEST_F(Arguments, RefusesWhatDoesNotExist) {
  refused(banyan_allreduce(in_, out_, 4, type_of(12), BANYAN_SUM, comm_), "12");
  refused(banyan_allreduce(in_, out_, 4, type_of(-1), BANYAN_SUM, comm_), "-1");
  refused(banyan_allreduce(in_, out_, 4, BANYAN_FLOAT32, 5, comm_), "5");
  refused(banyan_allreduce(in_, out_, 4, BANYAN_FLOAT32, -1, comm_), "-1");
  refused(banyan_reduce(in_, out_, 4, BANYAN_FLOAT32, BANYAN_SUM, 1, comm_), "1");
  refused(banyan_broadcast(in_, out_, 4, BANYAN_FLOAT32, -1, comm_), "-1");
  refused(banyan_send(in_, 4, BANYAN_FLOAT32, 3, comm_), "3");
  refused(banyan_allreduce(in_, out_, SIZE_MAX / 2, BANYAN_FLOAT32, BANYAN_SUM, comm_), "count");
  banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  call.collective = static_cast<banyan_collective_t>(14);
  refused(banyan_request_create(comm_, &call, &request), "14");
  call = BANYAN_CALL_INIT;
  call.algorithm = "triangle";
  refused(banyan_request_create(comm_, &call, &request), "triangle");
  call.algorithm = "pairwise";
  call.collective = BANYAN_BROADCAST;
  refused(banyan_request_create(comm_, &call, &request), "pairwise");
  EXPECT_EQ(request, nullptr);
  call = BANYAN_CALL_INIT;
  for (const auto& [algorithm, word] :
       {std::pair("ring(seg=0)", "seg=SIZE"), std::pair("ring()", "position 6"),
        std::pair("ring(intra=ring)", "intra"), std::pair("^ring(seg=1M)", "'^'"),
        std::pair("barrier: star(seg=1)", "star"), std::pair("mem=cuba: ring", "managed")}) {
    call.algorithm = algorithm;
    refused(banyan_request_create(comm_, &call, &request), word);
  }
}

// As in BANYAN_ALGO: a rule for other sizes or numbers of ranks leaves the usual choice.
TEST_F(Arguments, TakesRulesForOtherSizes) {
  for (const char* algorithm : {"allreduce size=1G-: ring", "ranks=64-: ring", "size=1G-: ^ring",
                                "mem=cuda: ring", "ring(seg=64K)", "torus(dims=2x3)"}) {
    banyan_call_t call = BANYAN_CALL_INIT;
    banyan_request_t request = nullptr;
    call.send = in_;
    call.recv = out_;
    call.count = 4;
    call.algorithm = algorithm;
    EXPECT_EQ(banyan_request_create(comm_, &call, &request), BANYAN_SUCCESS)
        << algorithm << ": " << banyan_last_error(comm_);
    EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  }
}

TEST_F(Arguments, RefusesWhatThisVersionHasNotAndWrongCompressions) {
  banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  call.on_stream = 1;
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_UNSUPPORTED, "CUDA");
  call = BANYAN_CALL_INIT;
  banyan_compression_t compression = BANYAN_COMPRESSION_INIT;
  call.compression = &compression;
  EXPECT_EQ(banyan_request_create(comm_, &call, &request), BANYAN_SUCCESS) << "exact is exact";
  EXPECT_EQ(banyan_request_destroy(request), BANYAN_SUCCESS);
  for (const double bound : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    compression.fidelity = BANYAN_BOUND_ABSOLUTE;
    compression.bound = bound;
    refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_INVALID_ARGUMENT, "bound");
  }
  const int none = 4;
  std::memcpy(&compression.fidelity, &none, sizeof none);
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_INVALID_ARGUMENT, "fidelity");
  compression.fidelity = BANYAN_CODEC;
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_INVALID_ARGUMENT, "NULL");
  compression.codec = "int9";
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_INVALID_ARGUMENT, "int9");
  compression.codec = "topk:1.01";
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_INVALID_ARGUMENT, ":1.01");
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.compression = &compression;
  banyan_unique_id_t id;
  banyan_comm_t made = nullptr;
  ASSERT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, &config), BANYAN_ERR_INVALID_ARGUMENT);
  config = BANYAN_CONFIG_INIT;
  config.determinism = static_cast<banyan_determinism_t>(3);
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, &config), BANYAN_ERR_INVALID_ARGUMENT);
  config = BANYAN_CONFIG_INIT;
  config.transports = "carrier-pigeon";
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, &config), BANYAN_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, nullptr), BANYAN_SUCCESS)
      << "what is refused locally uses no id up: " << banyan_last_error(nullptr);
  EXPECT_EQ(banyan_comm_finalize(made), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(made), BANYAN_SUCCESS);
}

TEST_F(Arguments, RefusesImpossibleTimeouts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  banyan_call_t call = BANYAN_CALL_INIT;
  banyan_request_t request = nullptr;
  banyan_comm_t made = nullptr;
  banyan_unique_id_t id;
  ASSERT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
  for (const double bad : {-1.0, -0.001, std::nan(""), -kInfinity}) {
    call.timeout_s = bad;
    refused(banyan_request_create(comm_, &call, &request), "timeout_s");
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout_s = bad;
    refused(banyan_comm_init(&made, 1, &id, 0, &config), "timeout_s");
    config = BANYAN_CONFIG_INIT;
    config.init_timeout_s = bad;
    refused(banyan_comm_init(&made, 1, &id, 0, &config), "init_timeout_s");
  }
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout_s = config.init_timeout_s = kInfinity;
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, &config), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_barrier(made), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_abort(made), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(made), BANYAN_SUCCESS);
}

TEST_F(Arguments, RefusesOverlapsThatAreNotInPlace) {
  refused(banyan_allreduce(in_, in_ + 1, 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "overlap");
  refused(banyan_allgather(in_ + 1, in_, 4, BANYAN_FLOAT32, comm_), "overlap");
  refused(banyan_reduce_scatter(in_, in_ + 1, 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "overlap");
  const size_t counts[] = {4}, displacements[] = {2};
  refused(banyan_alltoallv(in_, counts, nullptr, in_, counts, nullptr, BANYAN_FLOAT32, comm_),
          "overlap");
  refused(banyan_allgatherv(in_, 3, out_, counts, nullptr, BANYAN_FLOAT32, comm_), "3");
  EXPECT_EQ(banyan_allgatherv(in_ + 2, 4, in_, counts, displacements, BANYAN_FLOAT32, comm_),
            BANYAN_SUCCESS)
      << "in place: " << banyan_last_error(comm_);
  EXPECT_EQ(banyan_allreduce(in_, in_ + 4, 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), BANYAN_SUCCESS)
      << "side by side";
}

// Near the end of the address space, by the whole buffer or by the place of a block.
TEST_F(Arguments, RefusesBuffersThatWrapRound) {
  const auto at = [](uintptr_t before_the_end) {
    return test::address(UINTPTR_MAX - before_the_end);
  };
  const size_t large = size_t{1} << 40;
  refused(banyan_allreduce(at(7), in_, large, BANYAN_FLOAT32, BANYAN_SUM, comm_), "send");
  refused(banyan_allreduce(at(7), in_, large, BANYAN_FLOAT32, BANYAN_SUM, comm_), "wrap round");
  refused(banyan_allreduce(in_, at(7), 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "recv");
  refused(banyan_allreduce(at(7), at(7), 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "wrap round");
  refused(banyan_reduce_scatter(at(15), at(15), 4, BANYAN_FLOAT32, BANYAN_SUM, comm_), "send");
  refused(banyan_send(at(7), 4, BANYAN_FLOAT32, 0, comm_), "send");
  refused(banyan_recv(at(7), 4, BANYAN_FLOAT32, 0, comm_), "recv");
  const size_t counts[] = {4}, places[] = {(size_t{1} << 61) - 5};
  const float* high = test::address(UINTPTR_MAX / 2 + 64);
  refused(banyan_alltoallv(high, counts, places, out_, counts, nullptr, BANYAN_FLOAT32, comm_),
          "wrap round");
  refused(banyan_alltoallv(at(3), counts, counts, out_, counts, nullptr, BANYAN_FLOAT32, comm_),
          "wrap round");
  const size_t none[] = {0};
  EXPECT_EQ(banyan_alltoallv(at(3), none, counts, out_, none, nullptr, BANYAN_FLOAT32, comm_),
            BANYAN_SUCCESS)
      << "nothing there is read: " << banyan_last_error(comm_);
  EXPECT_EQ(banyan_allreduce(at(3), at(3), 0, BANYAN_FLOAT32, BANYAN_SUM, comm_), BANYAN_SUCCESS);
}

TEST_F(Arguments, RefusesABlockToOneselfOfTwoLengths) {
  const size_t three[] = {3}, five[] = {5};
  out_[0] = -7;
  refused(banyan_alltoallv(in_, three, nullptr, out_, five, nullptr, BANYAN_FLOAT32, comm_),
          "send_counts[0] of this rank is 3, recv_counts[0] is 5");
  refused(banyan_alltoallv(in_, five, nullptr, out_, three, nullptr, BANYAN_FLOAT32, comm_),
          "send_counts[0] of this rank is 5, recv_counts[0] is 3");
  refused(banyan_allgatherv(in_, 5, out_, three, nullptr, BANYAN_FLOAT32, comm_),
          "recv_counts[0] of this rank is 3");
  EXPECT_EQ(out_[0], -7);
  EXPECT_EQ(banyan_alltoallv(in_, three, nullptr, out_, three, nullptr, BANYAN_FLOAT32, comm_),
            BANYAN_SUCCESS)
      << banyan_last_error(comm_);
}

TEST_F(Arguments, RefusesWrongPlacesAndIds) {
  banyan_comm_t made = nullptr;
  banyan_unique_id_t id{};
  refused(banyan_comm_init(&made, 1, &id, 0, nullptr), "id");
  std::memset(id.bytes, 0x5A, sizeof id.bytes);
  refused(banyan_comm_init(&made, 1, &id, 0, nullptr), "id");
  ASSERT_EQ(banyan_get_unique_id(&id), BANYAN_SUCCESS);
  refused(banyan_comm_init(&made, 0, &id, 0, nullptr), "rank_count");
  refused(banyan_comm_init(&made, -3, &id, 0, nullptr), "-3");
  refused(banyan_comm_init(&made, 2, &id, 2, nullptr), "2");
  refused(banyan_comm_init(&made, 2, &id, -1, nullptr), "-1");
  banyan_unique_id_t bad = id;
  bad.bytes[60] = static_cast<char>(bad.bytes[60] ^ 1);
  EXPECT_NE(banyan_comm_init(&made, 1, &bad, 0, nullptr), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_init(&made, 1, &id, 0, nullptr), BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  EXPECT_EQ(banyan_comm_finalize(made), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(made), BANYAN_SUCCESS);
  made = nullptr;
  refused(banyan_comm_init(&made, 1, &id, 0, nullptr), BANYAN_ERR_INVALID_USAGE, "");
  EXPECT_EQ(made, nullptr) << "a used id";
}

}  // namespace
}  // namespace banyan::test::arguments_test
