// Who this rank is, read from the variables of whatever started it.
// SPDX-License-Identifier: Apache-2.0

#include "src/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/base/parse.h"
#include "src/slurm.h"
#include "src/wire.h"

namespace banyan {
namespace {

constexpr int kTorchrunPorts = 16;  // after MASTER_PORT
// Slurm numbers the batch script itself and other special steps from here on.
constexpr int64_t kSpecialSteps = 0xfffffff0;

// A launcher's variable; an empty value is a wrong value there.
class Variables {
 public:
  explicit Variables(const RawEnvironment& raw) : raw_(raw) {}

  bool has(std::string_view name) const { return raw_.find(name) != nullptr; }
  std::string text(std::string_view name) const {
    const std::string* value = raw_.find(name);
    return value != nullptr ? *value : std::string();
  }
  bool set(std::string_view name) const { return !text(name).empty(); }

  Result<int64_t> number(std::string_view name, int64_t least, int64_t most) const {
    const std::string* value = raw_.find(name);
    if (value == nullptr) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("{} is not set; expected a number from {} to {}", name, least, most));
    }
    auto parsed = parse_integer(*value, least, most);
    if (parsed.ok()) return parsed;
    return Status(Code::kInvalidArgument,
                  fmt::format("{}={} is not a number from {} to {}", name, *value, least, most));
  }

 private:
  const RawEnvironment& raw_;
};

struct Names {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size = {};  // none where empty
};

// Rank, size and local rank from variables of these names.
Result<Launch> numbers(const Variables& variables, LauncherKind kind, const Names& names) {
  Launch launch;
  launch.kind = kind;
  const auto size = variables.number(names.size, 1, kMostRanks);
  if (!size.ok()) return size.status();
  launch.size = static_cast<int>(*size);
  const auto rank = variables.number(names.rank, 0, *size - 1);
  if (!rank.ok()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} ({}={})", rank.status().message(), names.size, launch.size));
  }
  launch.rank = static_cast<int>(*rank);
  if (variables.set(names.local_rank)) {
    const auto local_rank = variables.number(names.local_rank, 0, *size - 1);
    if (!local_rank.ok()) return local_rank.status();
    launch.local_rank = static_cast<int>(*local_rank);
  }
  const auto local_size = variables.number(names.local_size, 1, kMostRanks);
  launch.one_host = local_size.ok() && *local_size == *size;
  return launch;
}

struct HostPort {
  std::string host;
  int port = 0;
};

std::optional<HostPort> split_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto port = parse_integer(text.substr(colon + 1), 1, 65535);
  if (!port.ok()) return std::nullopt;
  return HostPort{std::string(text.substr(0, colon)), static_cast<int>(*port)};
}

// By its text, without asking anybody: a name that only resolves to loopback is not seen.
bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.substr(0, 4) == "127.";
}

std::string in_brackets(const std::string& host) {
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return bare_v6 ? "[" + host + "]" : host;
}

Result<Launch> own(const Variables& variables, const Environment& environment) {
  auto launch =
      numbers(variables, LauncherKind::kOwn, {"BANYAN_RANK", "BANYAN_SIZE", "BANYAN_LOCAL_RANK"});
  if (!launch.ok()) return launch;
  const std::string address = variables.text("BANYAN_ADDRESS");
  if (address.empty() && launch->size == 1) return launch;
  const auto parts = split_address(address);
  if (!parts) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("BANYAN_ADDRESS='{}' is not HOST:PORT of rank 0 with a port from 1 to "
                    "65535, such as 127.0.0.1:4711",
                    address));
  }
  if (!is_loopback(parts->host) && environment.secret.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("BANYAN_ADDRESS={} is not on loopback, where anybody could come: set "
                              "BANYAN_SECRET to the same random text on all ranks, for example of "
                              "`openssl rand -hex 32`",
                              address));
  }
  launch->one_host = is_loopback(parts->host);
  launch->addresses.push_back(address);
  launch->secret_is_private = !environment.secret.empty();
  launch->secret = launch->secret_is_private ? environment.secret : "own variables, " + address;
  return launch;
}

Result<Launch> torchrun(const Variables& variables, const Environment& environment) {
  auto launch = numbers(variables, LauncherKind::kTorchrun,
                        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  if (!launch.ok()) return launch;
  const std::string host = variables.text("MASTER_ADDR");
  launch->one_host = launch->one_host || is_loopback(host);
  const auto port = variables.number("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  if (host.empty()) {
    return Status(Code::kInvalidArgument,
                  "MASTER_ADDR is empty; expected the host that rank 0 runs on");
  }
  // The agent's own store holds the port itself.
  const bool agent = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  for (int64_t i = agent ? 1 : 0; i <= kTorchrunPorts && *port + i <= 65535; ++i) {
    launch->addresses.push_back(fmt::format("{}:{}", in_brackets(host), *port + i));
  }
  launch->secret_is_private = !environment.secret.empty();
  launch->secret = fmt::format("torchrun\n{}\n{}\n{}\n{}", variables.text("TORCHELASTIC_RUN_ID"),
                               host, *port, environment.secret);
  if (launch->addresses.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("MASTER_PORT={} leaves no port after it to meet at", *port));
  }
  return launch;
}

bool slurm_has_one_host(const Variables& variables) {
  const std::string_view name =
      variables.set("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  return variables.text(name) == "1";
}

Result<Launch> pmix(const Variables& variables) {
  const std::string_view size_name =
      variables.set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (variables.set(size_name)) {
    auto launch =
        numbers(variables, LauncherKind::kPmix, {"PMIX_RANK", size_name, "SLURM_LOCALID"});
    if (launch.ok()) launch->one_host = slurm_has_one_host(variables);
    return launch;
  }
  const auto rank = variables.number("PMIX_RANK", 0, kMostRanks - 1);
  if (!rank.ok()) return rank.status();
  Launch launch;
  launch.kind = LauncherKind::kPmix;
  launch.rank = static_cast<int>(*rank);
  launch.size = 0;
  return launch;
}

Result<Launch> slurm(const Variables& variables, const Environment& environment) {
  const std::string_view size_name =
      variables.set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto launch =
      numbers(variables, LauncherKind::kSlurm, {"SLURM_PROCID", size_name, "SLURM_LOCALID"});
  if (!launch.ok() || launch->size == 1) return launch;
  const auto job = variables.number("SLURM_JOB_ID", 0, UINT32_MAX);
  if (!job.ok()) return job.status();
  const auto step = variables.number("SLURM_STEP_ID", 0, kSpecialSteps);
  if (!step.ok()) return step.status();
  std::string host = "127.0.0.1";
  launch->one_host = slurm_has_one_host(variables);
  if (!launch->one_host) {
    const std::string_view list_name =
        variables.set("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const auto first = first_host(variables.text(list_name));
    if (!first.ok()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: {}", list_name, first.status().message()));
    }
    host = *first;
  }
  for (const uint16_t port : step_ports(static_cast<uint64_t>(*job), static_cast<uint64_t>(*step),
                                        environment.port_range)) {
    launch->addresses.push_back(fmt::format("{}:{}", host, port));
  }
  launch->secret_is_private = !environment.secret.empty();
  launch->secret = fmt::format("slurm\n{}\n{}\n{}", *job, *step, environment.secret);
  return launch;
}

bool is_step(const Variables& variables) {
  const bool special = variables.number("SLURM_STEP_ID", kSpecialSteps, INT64_MAX).ok();
  return variables.set("SLURM_PROCID") && variables.set("SLURM_STEP_ID") && !special &&
         (variables.set("SLURM_STEP_NUM_TASKS") || variables.set("SLURM_NTASKS"));
}

}  // namespace

std::string_view name_of(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kOwn: return "BANYAN_RANK";
    case LauncherKind::kTorchrun: return "torchrun";
    case LauncherKind::kOpenMpi: return "Open MPI";
    case LauncherKind::kHydra: return "MPICH's Hydra (PMI)";
    case LauncherKind::kPmix: return "PMIx";
    case LauncherKind::kSlurm: return "Slurm";
  }
  return "";
}

Result<Launch> detect_launch(const RawEnvironment& raw, const Environment& environment) {
  const Variables variables(raw);
  if (variables.set("BANYAN_RANK") || variables.set("BANYAN_SIZE")) {
    return own(variables, environment);
  }
  if (variables.has("RANK") && variables.has("WORLD_SIZE") && variables.has("MASTER_ADDR")) {
    return torchrun(variables, environment);
  }
  const bool has_pmix = variables.set("PMIX_NAMESPACE") && variables.set("PMIX_RANK");
  if (variables.set("OMPI_COMM_WORLD_RANK") && has_pmix) {
    return numbers(variables, LauncherKind::kOpenMpi,
                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                    "OMPI_COMM_WORLD_LOCAL_SIZE"});
  }
  if (variables.set("PMI_RANK") && variables.set("PMI_FD")) {
    const auto descriptor = variables.number("PMI_FD", 0, INT32_MAX);
    if (!descriptor.ok()) return descriptor.status();
    return numbers(variables, LauncherKind::kHydra,
                   {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  }
  if (has_pmix) return pmix(variables);
  if (is_step(variables)) return slurm(variables, environment);
  return Status(Code::kInvalidUsage,
                "nothing says which rank this process is: start it with mpirun, mpiexec, srun or "
                "torchrun, or set BANYAN_RANK, BANYAN_SIZE and BANYAN_ADDRESS (looked for: "
                "BANYAN_RANK; RANK, WORLD_SIZE and MASTER_ADDR; OMPI_COMM_WORLD_RANK; PMI_RANK and "
                "PMI_FD; PMIX_RANK; SLURM_PROCID in a step)");
}

}  // namespace banyan
