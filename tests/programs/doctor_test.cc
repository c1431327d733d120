// What the doctor says of hosts with one thing wrong each, and of those with nothing wrong.
// SPDX-License-Identifier: Apache-2.0

#include "bench/info/doctor/doctor.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/info/show.h"
#include "src/tuning/tuning_file.h"
#include "tests/topology/sys_tree.h"
#include "topology/discovery/discover.h"

namespace banyan::doctor_test {
namespace {

using test::SysTree;
using ::testing::HasSubstr;

constexpr const char* kNic = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
constexpr const char* kGpu = "/sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0";
constexpr const char* kPort = "/sys/class/infiniband/mlx5_0/ports/1";
constexpr const char* kOpenDriver = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550";

// A host with an adapter that RDMA works on, an Ethernet interface and a GPU; nothing is wrong.
class Host : public SysTree {
 public:
  Host() {
    write("/proc/sys/kernel/hostname", "made");
    write("/proc/sys/kernel/osrelease", "6.1.0");
    write("/proc/cpuinfo",
          "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n"
          "model name : Made CPU");
    write("/sys/devices/system/cpu/online", "0-3");
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology", cpu);
      write(folder + "/physical_package_id", "0");
      write(folder + "/thread_siblings_list", fmt::format("{}", cpu));
    }
    write("/sys/devices/system/node/node0/cpulist", "0-3");
    device("0000:00:01.0", "/sys/devices/pci0000:00/0000:00:01.0", "0x060400", "0x8086");
    device("0000:01:00.0", kNic, "0x020700", "0x15b3");
    device("0000:00:02.0", "/sys/devices/pci0000:00/0000:00:02.0", "0x060400", "0x8086");
    device("0000:02:00.0", kGpu, "0x030200", "0x10de");
    const std::string rdma = fmt::format("{}/infiniband/mlx5_0", kNic);
    write(rdma + "/hca_type", "MT4129");
    write(rdma + "/ports/1/state", "4: ACTIVE");
    write(rdma + "/ports/1/rate", "400 Gb/sec (4X NDR)");
    write(rdma + "/ports/1/link_layer", "InfiniBand");
    write(rdma + "/ports/1/gids/0", "fe80:0000:0000:0000:0c42:a103:0000:0001");
    link(rdma + "/device", kNic);
    link("/sys/class/infiniband/mlx5_0", rdma);
    write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
    write("/dev/infiniband/uverbs0", "");
    write("/proc/driver/nvidia/version", kOpenDriver);
    interface("eth0", "up", "100000");
  }

  void device(const std::string& bus_id, const std::string& path, const char* type,
              const char* vendor) const {
    write(path + "/class", type);
    write(path + "/vendor", vendor);
    write(path + "/numa_node", "0");
    for (const char* which : {"max", "current"}) {
      write(fmt::format("{}/{}_link_speed", path, which), "32.0 GT/s PCIe");
      write(fmt::format("{}/{}_link_width", path, which), "16");
    }
    link("/sys/bus/pci/devices/" + bus_id, path);
  }

  void interface(const std::string& name, const char* state, const char* speed) const {
    const std::string path = fmt::format("/sys/devices/virtual/net/{}", name);
    write(path + "/type", "1");
    write(path + "/operstate", state);
    write(path + "/speed", speed);
    write(path + "/ifindex", "2");
    write(path + "/iflink", "3");
    link("/sys/class/net/" + name, path);
  }

  Diagnosis diagnose(const std::vector<std::pair<std::string, std::string>>& variables = {},
                     const ProcessFacts& process = {},
                     const std::vector<Patient::Missing>& missing = {}) const {
    const SysRoot root = sys();
    const auto topology = discover(root, nullptr);
    EXPECT_TRUE(topology.ok()) << topology.status().message();
    const RawEnvironment raw(variables);
    return banyan::diagnose({root, *topology, raw, process, missing});
  }
};

std::vector<std::string> ids_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Finding& finding : diagnosis.findings) ids.push_back(finding.id);
  return ids;
}

TEST(Doctor, FindsNothingWhereNothingIsWrong) {
  const Host host;
  const Diagnosis diagnosis = host.diagnose();
  EXPECT_THAT(ids_of(diagnosis), ::testing::IsEmpty());
  EXPECT_TRUE(diagnosis.healthy());
  ASSERT_EQ(diagnosis.pairs.size(), 2U);  // the GPU with each adapter
}

// One thing is changed; exactly that is found, with where it stands.
struct Wrong {
  const char* id;
  Severity severity;
  std::function<void(const Host&)> change;
  const char* evidence;
};

const std::vector<Wrong>& wrongs() {
  constexpr Severity kNote = Severity::kNote, kWarning = Severity::kWarning;
  const auto writes = [](const std::string& path, const std::string& text) {
    return [=](const Host& host) { host.write(path, text); };
  };
  const auto removes = [](const std::string& path) {
    return [=](const Host& host) { host.remove(path); };
  };
  static const std::vector<Wrong> all = {
      {"processors.bound", kNote, writes("/proc/self/status", "Cpus_allowed_list:\t0-1"),
       "/sys/devices/system/cpu/online: 0-3"},
      {"processors.quota", kWarning, writes("/sys/fs/cgroup/cpu.max", "150000 100000"),
       "/sys/fs/cgroup/cpu.max: 150000 100000"},
      {"processors.quota", kWarning,
       [](const Host& host) {
         host.write("/proc/self/cgroup", "0::/a/b");
         host.write("/sys/fs/cgroup/a/cpu.max", "100000 100000");
         host.write("/sys/fs/cgroup/a/b/cpu.max", "max 100000");
       },
       "/sys/fs/cgroup/a/cpu.max: 100000 100000"},
      // The least of a group and those above it counts.
      {"processors.quota", kWarning,
       [](const Host& host) {
         host.write("/proc/self/cgroup", "0::/a/b");
         host.write("/sys/fs/cgroup/a/cpu.max", "100000 100000");
         host.write("/sys/fs/cgroup/a/b/cpu.max", "800000 100000");
       },
       "/sys/fs/cgroup/a/cpu.max: 100000 100000"},
      {"processors.quota", kWarning,
       [](const Host& host) {
         host.write("/proc/self/cgroup", "0::/../..");
         host.write("/sys/fs/cgroup/cpu.max", "100000 100000");
       },
       "/sys/fs/cgroup/cpu.max: 100000 100000"},
      {"processors.governor", kWarning,
       [](const Host& host) {
         host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
         host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq");
       },
       "scaling_governor: powersave"},
      {"memory.limit", kNote, writes("/sys/fs/cgroup/memory.max", "1073741824"), "1073741824"},
      {"memory.balancing", kNote,
       [](const Host& host) {
         host.write("/sys/devices/system/node/node1/cpulist", "");
         host.write("/proc/sys/kernel/numa_balancing", "1");
       },
       "/proc/sys/kernel/numa_balancing: 1"},
      {"port.down", kNote, [](const Host& host) { host.interface("eth1", "down", "-1"); }, "down"},
      {"port.speed", kNote, [](const Host& host) { host.interface("eth1", "up", "-1"); },
       "ethtool"},
      {"pci.width", kWarning, writes(std::string(kNic) + "/current_link_width", "8"),
       "0000:01:00.0/current_link_width: 8"},
      {"pci.slot", kNote,
       [](const Host& host) {
         host.write("/sys/devices/pci0000:00/0000:00:01.0/max_link_width", "8");
         host.write(std::string(kNic) + "/current_link_width", "8");
       },
       "0000:00:01.0/max_link_width: 8"},
      {"pci.width", kWarning, writes(std::string(kGpu) + "/current_link_width", "4"),
       "0000:02:00.0/current_link_width: 4"},
      {"pci.speed", kWarning, writes(std::string(kNic) + "/current_link_speed", "8.0 GT/s PCIe"),
       "current_link_speed: 8.0 GT/s"},
      {"rdma.device", kWarning, removes("/dev/infiniband/uverbs0"), "/dev/infiniband/uverbs0"},
      {"rdma.device", kWarning, removes("/sys/class/infiniband_verbs"), "none is mlx5_0"},
      {"rdma.gid", kWarning,
       writes(std::string(kPort) + "/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000"),
       "all zero"}};
  return all;
}

TEST(Doctor, NamesTheOneThingThatIsWrong) {
  for (const Wrong& wrong : wrongs()) {
    const Host host;
    wrong.change(host);
    const Diagnosis diagnosis = host.diagnose();
    ASSERT_EQ(ids_of(diagnosis), std::vector<std::string>{wrong.id}) << wrong.evidence;
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.severity, wrong.severity) << wrong.id;
    EXPECT_THAT(finding.evidence, HasSubstr(wrong.evidence)) << wrong.id;
    EXPECT_EQ(diagnosis.healthy(), wrong.severity == Severity::kNote) << wrong.id;
    EXPECT_FALSE(finding.seen.empty()) << wrong.id;
  }
}

// An idle GPU trains down, and a driver that scales with load calls itself the same.
TEST(Doctor, TakesNoRestForAnIllness) {
  const Host host;
  host.write(std::string(kGpu) + "/current_link_speed", "2.5 GT/s PCIe");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate");
  host.write("/sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_THAT(ids_of(host.diagnose()), ::testing::IsEmpty());
}

// What follows from one port: it is not usable, and it is not active.
TEST(Doctor, TellsAPortWithoutASubnetManagerFromOneWithoutACable) {
  const Host host;
  host.write(std::string(kPort) + "/state", "2: INIT");
  EXPECT_THAT(ids_of(host.diagnose()), ::testing::ElementsAre("port.subnet", "rdma.port"));
  host.write(std::string(kPort) + "/state", "1: DOWN");
  EXPECT_THAT(ids_of(host.diagnose()), ::testing::ElementsAre("rdma.port", "port.down"));
}

void add_adapter(const Host& host, int number, const std::string& state, const std::string& rate,
                 const std::string& link_layer) {
  const std::string name = fmt::format("mlx5_{}", number);
  const std::string path = fmt::format("/sys/devices/pci0000:00/0000:00:1{}.0", number);
  host.device(fmt::format("0000:00:1{}.0", number), path, "0x020700", "0x15b3");
  const std::string rdma = path + "/infiniband/" + name;
  host.write(rdma + "/hca_type", "MT4129");
  host.write(rdma + "/ports/1/state", state);
  host.write(rdma + "/ports/1/rate", rate);
  host.write(rdma + "/ports/1/link_layer", link_layer);
  host.write(rdma + "/ports/1/gids/0", "fe80:0000:0000:0000:0c42:a103:0000:0002");
  host.link(rdma + "/device", path);
  host.link("/sys/class/infiniband/" + name, rdma);
  host.write(fmt::format("/sys/class/infiniband_verbs/uverbs{}/ibdev", number), name);
  host.write(fmt::format("/dev/infiniband/uverbs{}", number), "");
}

// One of many is a fault; half of them, or those of another network, may be meant so.
TEST(Doctor, FindsTheSlowOneOfSeveral) {
  const Host host;
  add_adapter(host, 1, "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet");
  EXPECT_THAT(ids_of(host.diagnose()), ::testing::IsEmpty());
  add_adapter(host, 2, "4: ACTIVE", "100 Gb/sec (4X EDR)", "InfiniBand");
  const Diagnosis half = host.diagnose();
  ASSERT_THAT(ids_of(half), ::testing::ElementsAre("port.rate"));
  EXPECT_TRUE(half.healthy());
  add_adapter(host, 3, "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
  const Diagnosis few = host.diagnose();
  ASSERT_THAT(ids_of(few), ::testing::ElementsAre("port.rate"));
  EXPECT_FALSE(few.healthy());
  EXPECT_EQ(few.findings[0].subject, "mlx5_2:1");
  EXPECT_THAT(few.findings[0].seen, HasSubstr("it carries 12.5 GB/s"));
}

// As the second port of most cards has none.
TEST(Doctor, LetsAnAdapterBeWithoutACableBesideOneThatWorks) {
  const Host host;
  add_adapter(host, 1, "1: DOWN", "10 Gb/sec (4X SDR)", "InfiniBand");
  const Diagnosis diagnosis = host.diagnose();
  EXPECT_THAT(ids_of(diagnosis), ::testing::ElementsAre("port.down", "rdma.port"));
  EXPECT_TRUE(diagnosis.healthy());
  EXPECT_EQ(diagnosis.findings[0].evidence, "/sys/class/infiniband/mlx5_1/ports/1/state: DOWN");
}

// What is compared with this host says nothing of another.
TEST(Doctor, ComparesVariablesWithTheHostThatIsLookedAt) {
  const Host host;
  EXPECT_THAT(
      ids_of(host.diagnose({{"BANYAN_NET_DEVICES", "mlx5_0"}, {"BANYAN_SOCKET_IFNAME", "eth0"}})),
      ::testing::IsEmpty());
  const Diagnosis missing = host.diagnose({{"BANYAN_SOCKET_IFNAME", "eth7"}});
  ASSERT_THAT(ids_of(missing), ::testing::ElementsAre("network.chosen"));
  EXPECT_EQ(missing.findings[0].severity, Severity::kError);
  host.write("/sys/devices/virtual/net/eth0/operstate", "down");
  EXPECT_THAT(ids_of(host.diagnose({{"BANYAN_SOCKET_IFNAME", "eth0"}})),
              ::testing::ElementsAre("network.chosen", "port.down"));
}

TEST(Doctor, ReadsVariablesAndAsksTheProcess) {
  const Host host;
  const Diagnosis named = host.diagnose(
      {{"BANYAN_TIMEOUTS", "5s"}, {"BANYAN_TIMEOUT", "soon"}, {"BANYAN_ALGO", "allreduce: rign"}});
  EXPECT_THAT(ids_of(named),
              ::testing::ElementsAre("variables.value", "variables.value", "variables.unknown"));
  EXPECT_THAT(named.findings[2].seen, HasSubstr("did you mean BANYAN_TIMEOUT?"));

  host.write("/proc/sys/kernel/yama/ptrace_scope", "1");
  const Diagnosis forbidden = host.diagnose({}, {.no_shared_memory = "memfd_create: no",
                                                 .no_reading = "process_vm_readv: no",
                                                 .no_verbs = "libibverbs.so.1: no",
                                                 .locked_bytes_most = 65536});
  EXPECT_THAT(ids_of(forbidden),
              ::testing::ElementsAre("memory.share", "memory.read", "rdma.verbs", "rdma.locked"));
  EXPECT_THAT(forbidden.findings[1].evidence, HasSubstr("yama/ptrace_scope: 1"));
  EXPECT_THAT(forbidden.findings[3].evidence, HasSubstr("64K"));

  const Diagnosis interrupted =
      host.diagnose({}, {.no_shared_memory = "fallocate: signals", .interrupted = true});
  ASSERT_THAT(ids_of(interrupted), ::testing::ElementsAre("memory.share"));
  EXPECT_THAT(interrupted.findings[0].fix, HasSubstr("signals"));

  const Diagnosis alone = host.diagnose({}, {.no_loopback = "connect to 127.0.0.1:9: no"});
  ASSERT_THAT(ids_of(alone), ::testing::ElementsAre("network.loopback"));
  EXPECT_EQ(alone.findings[0].severity, Severity::kError);

  const Diagnosis blind = host.diagnose(
      {}, {.no_gpu = "cuInit: CUDA_ERROR_NO_DEVICE", .no_kernels = "this one has 7.0"});
  EXPECT_THAT(ids_of(blind), ::testing::ElementsAre("cuda.device", "cuda.kernels"));
  const Diagnosis apart =
      host.diagnose({}, {.no_handles = "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT"});
  ASSERT_THAT(ids_of(apart), ::testing::ElementsAre("cuda.ipc"));
  EXPECT_EQ(apart.findings[0].evidence, "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_EQ(apart.findings[0].severity, Severity::kNote) << "descriptors do";
  const Diagnosis refused = host.diagnose({}, {.no_handles = "one", .no_descriptors = "other"});
  ASSERT_THAT(ids_of(refused), ::testing::ElementsAre("cuda.ipc"));
  EXPECT_EQ(refused.findings[0].evidence, "one; other");
  EXPECT_EQ(refused.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(blind.findings[0].severity, Severity::kWarning) << "there is one on the bus";

  const Diagnosis built = host.diagnose({}, {}, {{"ucx", "this build has no UCX"}});
  ASSERT_THAT(ids_of(built), ::testing::ElementsAre("transports.missing"));
  EXPECT_EQ(built.findings[0].evidence, "this build has no UCX");
}

TEST(Doctor, FindsDevicesAtNoNumaDomainAndFilesOfOtherProcessors) {
  const Host host;
  host.write("/sys/devices/system/node/node1/cpulist", "");
  host.write(std::string(kNic) + "/numa_node", "-1");
  host.write("/sys/devices/pci0000:00/0000:00:01.0/numa_node", "-1");
  const Diagnosis nowhere = host.diagnose();
  ASSERT_THAT(ids_of(nowhere), ::testing::ElementsAre("pci.numa"));
  EXPECT_EQ(nowhere.findings[0].evidence, "/sys/bus/pci/devices/0000:01:00.0/numa_node: -1");

  const Host other;
  const std::string path = other.root() + "/tune.json";
  for (const std::string cpu : {"Made CPU", "Another CPU"}) {
    ASSERT_TRUE(write_tuning_file(path, {.version = "0", .tuned_on = {.cpu = cpu}}).ok());
    EXPECT_EQ(ids_of(other.diagnose({{"BANYAN_TUNE_FILE", path}})),
              cpu == "Made CPU" ? std::vector<std::string>{}
                                : std::vector<std::string>{"variables.tuned"});
  }
}

TEST(Doctor, SaysThatAHostLeadsNowhere) {
  const SysTree empty;
  const RawEnvironment raw(std::vector<std::pair<std::string, std::string>>{});
  const SysRoot root = empty.sys();
  const auto topology = discover(root, nullptr);
  ASSERT_TRUE(topology.ok());
  const Diagnosis diagnosis = diagnose({root, *topology, raw, {}, {}});
  EXPECT_THAT(ids_of(diagnosis), ::testing::ElementsAre("network.none"));
  EXPECT_TRUE(diagnosis.pairs.empty());
}

struct Chain {
  GpuDirect verdict;
  std::function<void(const Host&)> change;
  const char* why;
};

TEST(DoctorOfGpus, NamesTheFirstLinkThatIsMissing) {
  const std::vector<Chain> chains = {
      {GpuDirect::kPossible, [](const Host&) {}, "[library.memory]"},
      {GpuDirect::kUnknown, [](const Host& host) { host.remove("/proc/driver"); }, "[gpu.driver]"},
      {GpuDirect::kPossible,
       [](const Host& host) {
         host.write("/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module");
       },
       "[gpu.module]"},
      {GpuDirect::kPossible,
       [](const Host& host) {
         host.write("/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module");
         host.write("/sys/module/nvidia_peermem/version", "550");
       },
       "[library.memory]"},
      {GpuDirect::kPossible,
       [](const Host& host) { host.write("/proc/sys/kernel/osrelease", "5.10.0-8"); },
       "[gpu.kernel] kernel 5.10.0-8"},
      {GpuDirect::kUnknown, [](const Host& host) { host.remove("/proc/sys/kernel/osrelease"); },
       "[gpu.kernel]"},
      {GpuDirect::kPossible, [](const Host& host) { host.remove("/dev/infiniband/uverbs0"); },
       "[rdma.device]"},
      {GpuDirect::kUnknown,
       [](const Host& host) { host.write(std::string(kGpu) + "/vendor", "0x1002"); },
       "[gpu.vendor]"},
      {GpuDirect::kUnknown,
       [](const Host& host) { host.write(std::string(kGpu) + "/class", "0x030000"); },
       "[gpu.kind]"}};
  for (const Chain& chain : chains) {
    const Host host;
    chain.change(host);
    const Diagnosis diagnosis = host.diagnose();
    const auto pair = std::find_if(diagnosis.pairs.begin(), diagnosis.pairs.end(),
                                   [](const GpuNic& each) { return each.nic == "mlx5_0"; });
    ASSERT_NE(pair, diagnosis.pairs.end()) << chain.why;
    EXPECT_EQ(pair->verdict, chain.verdict) << chain.why << " " << pair->why;
    EXPECT_THAT(pair->why, HasSubstr(chain.why));
    EXPECT_EQ(pair->path, PathClass::kPhb);
  }
}

TEST(DoctorOfGpus, AnInterfaceWithoutRdmaReadsNoGpu) {
  const Host host;
  const Diagnosis diagnosis = host.diagnose();
  const auto pair = std::find_if(diagnosis.pairs.begin(), diagnosis.pairs.end(),
                                 [](const GpuNic& each) { return each.nic == "eth0"; });
  ASSERT_NE(pair, diagnosis.pairs.end());
  EXPECT_EQ(pair->verdict, GpuDirect::kImpossible);
  EXPECT_THAT(pair->why, HasSubstr("[nic.rdma]"));
}

TEST(ShowDoctor, TextsHaveWhatWasFoundAndNoControlCharacters) {
  Diagnosis diagnosis;
  diagnosis.findings.push_back({"port.down", Severity::kNote, "eth\n1", "it is down", "state", ""});
  diagnosis.pairs.push_back(
      {"gpu0", "mlx5_0", PathClass::kPix, GpuDirect::kUnknown, "[gpu.driver]", "load it"});
  const std::string text = info::show_diagnosis(diagnosis);
  EXPECT_THAT(text, HasSubstr("note     [port.down] eth 1: it is down\n    evidence state\n"));
  EXPECT_THAT(text, HasSubstr("GPUDirect gpu0 - mlx5_0 (PIX): unknown\n    why      [gpu.driver]\n"
                              "    fix      load it\n"));
  EXPECT_THAT(text, HasSubstr("0 errors, 0 warnings, 1 note\n"));
  const std::string json = info::show_diagnosis_json(diagnosis);
  EXPECT_THAT(json, HasSubstr("\"healthy\": true"));
  EXPECT_THAT(json, HasSubstr("\"id\": \"port.down\""));
  EXPECT_THAT(json, HasSubstr("\"verdict\": \"unknown\""));
}

TEST(ThisProcess, CanDoWhatRanksOfTheOtherTestsDo) {
  EXPECT_EQ(facts_of_process().no_shared_memory, "");
}

TEST(DiagnoseHost, RefusesARootThatIsNoFolder) {
  const RawEnvironment raw(
      std::vector<std::pair<std::string, std::string>>{{"BANYAN_SYSROOT", "/nowhere"}});
  const auto refused = info::diagnose_host(raw, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("BANYAN_SYSROOT=/nowhere"));
}

}  // namespace
}  // namespace banyan::doctor_test
