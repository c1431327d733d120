// BANYAN_COMPRESS over every transport: sums of floats are near, alike on all ranks, and shorter on
// their way; all other calls are exact.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "algorithms/schedule.h"
#include "src/c_api/inspect.h"
#include "tests/ranks/over_transports.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test::compressed_test {
namespace {

class Compressed : public OverTransports {
 protected:
  void run(int size, const std::function<void(Rank&, banyan_comm_t)>& body,
           const std::string& compress = "int8") {
    const std::string transport(GetParam().transport);
    run_ranks(GetParam().kind, size,
              [&](Rank& self) {
                banyan_config_t config = BANYAN_CONFIG_INIT;
                config.transports = transport.c_str();
                config.timeout_s = 20 * time_factor();
                banyan_comm_t comm = self.join(&config);
                if (comm == nullptr) return;
                body(self, comm);
                self.leave(comm);
              },
              {.environment = {{"BANYAN_COMPRESS", compress}}});
  }
};

float number(int rank, size_t i) {
  return std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 1));
}

std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = number(rank, i);
  return made;
}

uint64_t digest(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return hash;
}

// Half a step of each contribution and of their sum, with magnitudes of 1 at most.
double bound(int ranks) {
  return 1.001 * ranks / 127;
}

void expect_near(Rank& self, const std::vector<float>& got, size_t first, double divisor) {
  double farthest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < self.size(); ++rank)
      sum += static_cast<double>(number(rank, first + i));
    farthest = std::max(farthest, std::abs(static_cast<double>(got[i]) - sum / divisor));
  }
  self.expect(farthest <= bound(self.size()) / divisor, "too far: " + std::to_string(farthest));
  self.expect(self.size() == 1 || farthest > 0, "nothing was lost, so nothing was compressed");
}

CallPlan plan_of_call(banyan_comm_t comm, size_t count) {
  banyan_call_t call = BANYAN_CALL_INIT;
  std::vector<float> send(count), recv(count);
  call.send = send.data();
  call.recv = recv.data();
  call.count = count;
  return *plan_of(comm, call);
}

TEST_P(Compressed, SumsAreNearAndAlike) {
  for (const int size : {1, 2, 3, 5})
    run(size, [](Rank& self, banyan_comm_t comm) {
      for (const size_t count : {1024, 5000, 70001, 300000})
        for (const bool in_place : {false, true})
          for (const banyan_op_t op : {BANYAN_SUM, BANYAN_AVG}) {
            self.where("sums of " + std::to_string(count));
            std::vector<float> send = numbers(self.rank(), count), recv(count);
            if (in_place) recv = send;
            const float* from = in_place ? recv.data() : send.data();
            if (!self.expect_ok(
                    banyan_allreduce(from, recv.data(), count, BANYAN_FLOAT32, op, comm),
                    "allreduce"))
              return;
            expect_near(self, recv, 0, op == BANYAN_AVG ? self.size() : 1);
            self.agree(digest(recv), "the sums");
          }
    });
}

TEST_P(Compressed, BlocksOfSumsAreNear) {
  run(3, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCount = 7001;
    const std::vector<float> send = numbers(self.rank(), kCount * static_cast<size_t>(self.size()));
    std::vector<float> recv(kCount);
    self.expect_ok(
        banyan_reduce_scatter(send.data(), recv.data(), kCount, BANYAN_FLOAT32, BANYAN_SUM, comm),
        "reduce_scatter");
    expect_near(self, recv, kCount * static_cast<size_t>(self.rank()), 1);
  });
}

TEST_P(Compressed, FewerBytesTravel) {
  run(2, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCount = 1 << 20;
    const CallPlan plan = plan_of_call(comm, kCount);
    self.expect(plan.algorithm == "direct(codec=int8)", plan.algorithm);
    // A half of the contribution, and a half of the sum; each of 128 superblocks.
    // On GPUs a rank also says where its window is.
    const uint64_t messages = 2 * 128 * (4096 + 64);
    self.expect(plan.bytes_sent == messages || plan.bytes_sent == messages + kOfferBytes,
                std::to_string(plan.bytes_sent));
    self.expect(plan_of_call(comm, 1023).algorithm.find("codec") == std::string::npos,
                "a short sum is exact");
  });
}

// Everything that is no long sum of floats, and a call that says so.
TEST_P(Compressed, OtherCallsAreExact) {
  run(2, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCount = 5000;
    const std::vector<float> send = numbers(self.rank(), kCount);
    std::vector<float> recv(2 * kCount);
    self.expect_ok(
        banyan_allreduce(send.data(), recv.data(), kCount, BANYAN_FLOAT32, BANYAN_MAX, comm),
        "max");
    for (size_t i = 0; i < kCount; ++i)
      if (recv[i] != std::max(number(0, i), number(1, i))) return self.fail("a maximum");
    self.expect_ok(banyan_allgather(send.data(), recv.data(), kCount, BANYAN_FLOAT32, comm),
                   "allgather");
    for (size_t i = 0; i < kCount; ++i)
      if (recv[i] != number(0, i) || recv[kCount + i] != number(1, i)) return self.fail("a block");
    self.expect_ok(
        banyan_allreduce(send.data(), recv.data(), 1023, BANYAN_FLOAT32, BANYAN_SUM, comm),
        "short");
    for (size_t i = 0; i < 1023; ++i)
      if (recv[i] != number(0, i) + number(1, i)) return self.fail("a short sum");
    const banyan_compression_t exact = BANYAN_COMPRESSION_INIT;
    banyan_call_t call = BANYAN_CALL_INIT;
    call.send = send.data();
    call.recv = recv.data();
    call.count = kCount;
    call.compression = &exact;
    banyan_request_t request = nullptr;
    self.expect_ok(banyan_request_create(comm, &call, &request), "create");
    self.expect_ok(banyan_request_start(request), "start");
    self.expect_ok(banyan_request_wait(request), "wait");
    self.expect_ok(banyan_request_destroy(request), "destroy");
    for (size_t i = 0; i < kCount; ++i)
      if (recv[i] != number(0, i) + number(1, i)) return self.fail("a sum that asks to be exact");
    std::vector<int32_t> whole(kCount, self.rank() + 1), sums(kCount);
    self.expect_ok(
        banyan_allreduce(whole.data(), sums.data(), kCount, BANYAN_INT32, BANYAN_SUM, comm),
        "ints");
    self.expect(std::count(sums.begin(), sums.end(), 3) == static_cast<ptrdiff_t>(kCount), "ints");
  });
}

// A value that is none spreads within its block only, and to all ranks.
TEST_P(Compressed, NanComesThrough) {
  run(2, [](Rank& self, banyan_comm_t comm) {
    constexpr size_t kCount = 8192;
    std::vector<float> send = numbers(self.rank(), kCount), recv(kCount);
    if (self.rank() == 1) send[5000] = NAN;
    self.expect_ok(
        banyan_allreduce(send.data(), recv.data(), kCount, BANYAN_FLOAT32, BANYAN_SUM, comm),
        "sum");
    self.expect(std::isnan(recv[5000]), "a NaN is lost");
    self.expect(!std::isnan(recv[4000]) && !std::isnan(recv[6000]), "it is in other blocks, too");
    const auto nans =
        std::count_if(recv.begin(), recv.end(), [](float x) { return std::isnan(x); });
    self.expect(nans == 256, std::to_string(nans) + " NaNs");
    self.agree(digest(recv), "the sums");
  });
}

TEST_P(Compressed, CanBeRefusedByTheConfiguration) {
  const std::string transport(GetParam().transport);
  run_ranks(GetParam().kind, 2,
            [&](Rank& self) {
              const banyan_compression_t exact = BANYAN_COMPRESSION_INIT;
              banyan_config_t config = BANYAN_CONFIG_INIT;
              config.transports = transport.c_str();
              config.compression = &exact;
              banyan_comm_t comm = self.join(&config);
              if (comm == nullptr) return;
              self.expect(plan_of_call(comm, 1 << 20).algorithm.find("codec") == std::string::npos,
                          "the variable counts for more than the configuration");
              self.leave(comm);
            },
            {.environment = {{"BANYAN_COMPRESS", "int8"}}});
}

INSTANTIATE_TEST_SUITE_P(All, Compressed, everywhere(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::compressed_test
