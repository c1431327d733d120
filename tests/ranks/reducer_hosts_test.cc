// Reducers on several hosts, where codecs may be of the level between them, of that inside, or of
// both: nothing is lost, whatever drops it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/c_api/inspect.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"
#include "tests/ranks/two_hosts.h"
#include "tests/support/sanitizers.h"
#include "transports/transport.h"

namespace banyan::test::reducer_hosts_test {
namespace {

constexpr uint64_t kSteps = 5;

std::vector<Layer> layers_on_hosts() {
  return {{.id = 900, .count = 5000},
          {.id = 8, .count = 300, .dimensions = 1},
          {.id = 40, .count = 20'001}};
}

class ReducersOnHosts : public WithRanks {
 protected:
  void SetUp() override {
    if (kThreadSanitizer)
      GTEST_SKIP() << "UCX dies in a child of fork() under the thread sanitizer";
    for (const TransportKind& kind : transport_kinds())
      if (kind.name == "ucx" && !kind.missing().empty()) GTEST_SKIP() << kind.missing();
    if (!hosts_.made()) GTEST_SKIP() << "network namespaces cannot be made here";
  }

  // Rank by rank, on which host each lies.
  void run_on(const std::vector<int>& hosts, const char* codec,
              const std::function<void(Rank&, banyan_comm_t)>& body) {
    run(static_cast<int>(hosts.size()),
        [&](Rank& self) {
          self.where(codec);
          if (!self.expect(hosts_.enter(hosts[static_cast<size_t>(self.rank())]), "a host")) return;
          const banyan_comm_t comm = join_with(self, codec);
          if (comm == nullptr) return;
          body(self, comm);
          self.leave(comm);
        },
        {.limit_s = 20, .environment = {{"BANYAN_ALGO", "hierarchical"}}});
  }

 private:
  TwoHosts hosts_;
};

void expect_hierarchical(Rank& self, banyan_comm_t comm) {
  std::vector<float> values(5000);
  const banyan_call_t call = call_of([&](banyan_call_t& c) {
    c.send = c.recv = values.data();
    c.count = values.size();
  });
  const Result<CallPlan> plan = plan_of(comm, call);
  if (self.expect(plan.ok(), plan.status().message()))
    self.expect(plan->algorithm.find("hierarchical") != std::string::npos &&
                    plan->algorithm.find("codec") != std::string::npos,
                plan->algorithm);
}

bool run_steps(Rank& self, banyan_reducer_t reducer, Model& model, uint64_t begin, uint64_t end,
               Account& account) {
  for (uint64_t step = begin; step < end; ++step) {
    model.fill(step, self.rank());
    if (!reduce(self, reducer, model, step)) return false;
    self.agree(model.digest(), "sums");
    account.take_out(model);
    account.put_in(model, step, self.size());
  }
  return true;
}

// With a restart in the middle.
void expect_all_kept(Rank& self, banyan_comm_t comm, std::string_view codec, double tolerance) {
  expect_hierarchical(self, comm);
  Model model(layers_on_hosts());
  banyan_reducer_t reducer = make_reducer(self, comm, model, reducer_config());
  Account account(model);
  if (reducer == nullptr || !run_steps(self, reducer, model, 0, 3, account)) return;
  const std::vector<std::byte> blob = save(self, reducer);
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
  reducer = make_reducer(self, comm, model, reducer_config());
  if (reducer == nullptr || !load(self, reducer, {&blob, 1}) ||
      !run_steps(self, reducer, model, 3, kSteps, account))
    return;
  add_all_left(self, comm, save(self, reducer), account);
  self.expect(account.largest_difference() <= tolerance,
              fmt::format("{}: {} is missing", codec, account.largest_difference()));
  self.expect(account.left() > 0, fmt::format("{}: nothing is left", codec));
  // A step that is not finite leaves no trace.
  Checkpoint before = state_of(self, reducer);
  model.fill(kSteps, self.rank());
  if (self.rank() == self.size() - 1) model.set(2, 19'000, std::nan(""));
  if (!reduce(self, reducer, model, 1)) return;
  self.agree(model.digest(), "sums");
  ++before.steps;
  self.expect(state_of(self, reducer) == before, "what is kept has changed");
  self.expect_ok(banyan_reducer_destroy(reducer), "destroy");
}

// Codecs of multiples of 1/256 keep such multiples.
TEST_P(ReducersOnHosts, KeepAllThatIsLeft) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1, 1}})
    for (const char* codec :
         {"topk:0.1", "topk:0.1:resel", "topk:0.1:fp16", "randk:0.25", "sign:0.5",
          "inter=topk:0.1,intra=threshold:1", "inter=topk:0.1:resel,intra=randk:0.25:fp16",
          "inter=threshold:1,intra=topk:0.2:resel", "inter=off,intra=topk:0.1"})
      run_on(hosts, codec,
             [&](Rank& self, banyan_comm_t comm) { expect_all_kept(self, comm, codec, 0); });
}

// Each step and each rank rounds by half a unit in the last place of values up to 64.
TEST_P(ReducersOnHosts, KeepWhatQuantisersLeave) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  for (const char* codec :
       {"int8", "int8+sr", "inter=int8+sr,intra=int8", "inter=onebit,intra=dyn8", "fp8",
        "inter=topk:0.1,intra=e5m2+sr", "inter=onebit,intra=onebit"})
    run_on(hosts, codec, [&](Rank& self, banyan_comm_t comm) {
      expect_all_kept(self, comm, codec, static_cast<double>(kSteps) * 10 * 32 * 0x1p-23);
    });
}

// Threads have their host in common.
INSTANTIATE_TEST_SUITE_P(All, ReducersOnHosts, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::reducer_hosts_test
