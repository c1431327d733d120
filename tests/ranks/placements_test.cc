// BANYAN_INVARIANT over every transport: sums of floats have the bits of plain code that adds in
// the order of ranks, wherever the ranks lie, whatever calls name, and however a vector is cut.
// SPDX-License-Identifier: Apache-2.0

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "src/c_api/inspect.h"
#include "tests/ranks/over_transports.h"
#include "tests/ranks/rank_order.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/support/effort.h"

namespace banyan::test::placements_test {
namespace {

int placements() {
  return is_brief() ? 5 : 20;
}

banyan_compression_t by_int8() {
  banyan_compression_t compression = BANYAN_COMPRESSION_INIT;
  compression.fidelity = BANYAN_CODEC;
  compression.codec = "int8";
  return compression;
}

class Placements : public OverTransports {
 protected:
  banyan_config_t invariant() const {
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.transports = GetParam().transport.data();
    config.timeout_s = 20 * time_factor();
    config.determinism = BANYAN_INVARIANT;
    return config;
  }
  void run(int size, const std::function<void(Rank&, banyan_comm_t)>& body) {
    run_ranks(GetParam().kind, size,
              [&](Rank& self) {
                const banyan_config_t config = invariant();
                banyan_comm_t comm = self.join(&config);
                if (comm == nullptr) return;
                body(self, comm);
                self.leave(comm);
              },
              {.limit_s = 100});
  }
};

// Drawn the same on all ranks; short vectors, which known calls take, and cuts of long ones.
OrderedSum drawn(Collective collective, DataType type, uint64_t salt) {
  constexpr size_t kCounts[] = {1, 7, 60, 1003, 5000, 30000};
  const uint64_t random = mix(salt);
  OrderedSum sum{.collective = collective,
                 .type = type,
                 .op = kSummingOps[random % std::size(kSummingOps)],
                 .count = kCounts[random / 8 % std::size(kCounts)],
                 .seed = random >> 20};
  if (sum.count == 30000) sum.pieces = 1 + static_cast<int>(random / 64 % 3);
  const Algorithm& named = algorithms()[random / 256 % algorithms().size()];
  if (random / 8192 % 2 == 0 && named.fits(collective)) sum.algorithm = named.name;
  return sum;
}

// A half of them, by chance.
void check_sums(Rank& self, banyan_comm_t comm, std::string_view codec, uint64_t salt) {
  for (const Collective collective : kSummingCollectives)
    for (const DataType type : kFloatTypes) {
      const OrderedSum sum = drawn(collective, type, ++salt);
      if (sum.seed % 2 == 0) continue;
      self.where(describe(sum));
      const std::string wrong = check_ordered(comm, sum, codec);
      if (!self.expect(wrong.empty(), wrong)) return;
    }
}

// The same rank numbers, and so the same data, lie on other processes.
TEST_P(Placements, HaveTheSameBits) {
  for (const DataType type : kFloatTypes)  // sums of e4m3 are exact in every order
    EXPECT_EQ(order_matters(type, 5), type != DataType::kFloat8E4m3) << name_of(type);
  run(5, [&](Rank& self, banyan_comm_t comm) {
    check_sums(self, comm, "off", 1);
    for (int placement = 1; placement <= placements(); ++placement) {
      const auto salt = static_cast<uint64_t>(placement) << 16;
      const int key = static_cast<int>(mix(salt + static_cast<uint64_t>(self.rank())) % 1000);
      const bool coded = placement % 2 == 0;
      const banyan_compression_t compression = by_int8();
      banyan_config_t config = invariant();
      if (coded) config.compression = &compression;
      banyan_comm_t child = nullptr;
      if (!self.expect_ok(banyan_comm_split(comm, 0, key, &child, &config), "split")) return;
      check_sums(self, child, coded ? "int8" : "off", salt);
      self.leave(child);
    }
  });
}

TEST_P(Placements, HaveThemOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3})
    run(size, [](Rank& self, banyan_comm_t comm) {
      for (uint64_t turn = 0; turn < 5; ++turn) check_sums(self, comm, "off", turn << 16);
    });
}

std::string algorithm_of(banyan_comm_t comm, banyan_op_t op, banyan_datatype_t type) {
  std::vector<double> values(1000);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = call.recv = values.data();
  call.count = values.size();
  call.datatype = type;
  call.op = op;
  call.algorithm = "ring";
  const Result<CallPlan> plan = plan_of(comm, call);
  return plan.ok() ? plan->algorithm : std::string(plan.status().message());
}

std::string explanation_of(banyan_comm_t comm) {
  float value = 0;
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = call.recv = &value;
  call.count = 1;
  std::string text(10000, '\0');
  size_t bytes = text.size();
  return banyan_explain(comm, &call, text.data(), &bytes) == BANYAN_SUCCESS ? text : "";
}

TEST_P(Placements, AreOfSumsOfFloatsAndOfTheirCommunicator) {
  run(2, [](Rank& self, banyan_comm_t comm) {
    self.expect(algorithm_of(comm, BANYAN_SUM, BANYAN_FLOAT32) == "direct", "a sum");
    self.expect(algorithm_of(comm, BANYAN_PROD, BANYAN_BFLOAT16) == "direct", "a product");
    self.expect(algorithm_of(comm, BANYAN_MAX, BANYAN_FLOAT32) == "ring", "a maximum");
    self.expect(algorithm_of(comm, BANYAN_SUM, BANYAN_INT32) == "ring", "a sum of integers");
    const std::string text = explanation_of(comm);
    self.expect(text.find("by the invariant sums") != std::string::npos, text);
    banyan_comm_t child = nullptr;
    if (!self.expect_ok(banyan_comm_split(comm, 0, 0, &child, nullptr), "split")) return;
    self.expect(algorithm_of(child, BANYAN_SUM, BANYAN_FLOAT32) == "ring",
                "a child has the defaults where it has no configuration");
    self.leave(child);
  });
}

TEST_P(Placements, AreAgreedOn) {
  run_ranks(GetParam().kind, 3, [&](Rank& self) {
    banyan_config_t config = invariant();
    if (self.rank() == 1) config.determinism = BANYAN_DETERMINISTIC;
    banyan_comm_t comm = nullptr;
    self.expect_code(self.try_join(&comm, &config), BANYAN_ERR_MISMATCH, "join");
    const std::string text = banyan_last_error(nullptr);
    self.expect(text.find("determinism differs: rank 0 has 'invariant', rank 1 has "
                          "'deterministic'") != std::string::npos,
                text);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Placements, everywhere(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::placements_test
