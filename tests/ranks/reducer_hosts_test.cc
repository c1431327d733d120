// Reducers on several hosts, where codecs may be of the level between them, of that inside, or of
// both: nothing is lost, whatever drops it.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/descriptor.h"
#include "src/c_api/inspect.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/ranks/ranks_values.h"
#include "tests/ranks/reducer_model.h"
#include "tests/support/sanitizers.h"
#include "transports/transport.h"

namespace banyan::test {
namespace {

constexpr uint64_t kSteps = 5;

bool shell(const std::string& command) {
  return std::system((command + " 2> /dev/null").c_str()) == 0;  // NOLINT(cert-env33-c): our words
}

// Two network namespaces, joined by a cable, are two hosts, as far as the library can tell.
class TwoHosts {
 public:
  TwoHosts() {
    const std::string right_end = "byx" + id_;
    made_ = shell("ip netns add " + name(0)) && shell("ip netns add " + name(1)) &&
            shell(fmt::format("ip link add {0} netns {0} type veth peer name {1} netns {2}",
                              name(0), right_end, name(1))) &&
            shell(fmt::format("ip -n {0} addr add 192.0.2.1/24 dev {0}", name(0))) &&
            shell(fmt::format("ip -n {} addr add 192.0.2.2/24 dev {}", name(1), right_end)) &&
            shell(fmt::format("ip -n {0} link set {0} up", name(0))) &&
            shell(fmt::format("ip -n {} link set {} up", name(1), right_end)) &&
            shell(fmt::format("ip -n {} link set lo up", name(0))) &&
            shell(fmt::format("ip -n {} link set lo up", name(1))) && comes_up(name(0), name(0)) &&
            comes_up(name(1), right_end);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts() {
    for (const int host : {0, 1}) (void)shell("ip netns del " + name(host));
  }

  bool made() const { return made_; }
  // This process is there from now on.
  bool enter(int host) const {
    const std::string interface = host == 0 ? name(0) : "byx" + id_;
    setenv("BANYAN_SOCKET_IFNAME", interface.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    const Descriptor there(open(("/run/netns/" + name(host)).c_str(), O_RDONLY | O_CLOEXEC));
    // /sys shows the interfaces of the namespace in which it was mounted.
    return there.valid() && setns(there.get(), CLONE_NEWNET) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  }

 private:
  // The kernel says so a while after both ends are.
  static bool comes_up(const std::string& host, const std::string& end) {
    return shell(
        fmt::format("for i in $(seq 100); do ip -n {} -br link show dev {} | grep -q ' UP ' && "
                    "exit; sleep 0.05; done; exit 1",
                    host, end));
  }
  std::string name(int host) const { return (host == 0 ? "byl" : "byr") + id_; }

  std::string id_ = std::to_string(getpid());
  bool made_ = false;
};

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
}  // namespace banyan::test
