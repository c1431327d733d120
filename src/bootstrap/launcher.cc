// Who this rank is, read from the variables of whatever started it.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/launcher.h"

#include <fmt/format.h>

#include <optional>

#include "src/base/most_ranks.h"
#include "src/base/parse.h"
#include "src/bootstrap/frame.h"
#include "src/bootstrap/launcher_claims.h"
#include "src/bootstrap/slurm.h"

namespace banyan {
namespace {

constexpr int kTorchrunPorts = 16;  // after MASTER_PORT

// Rank and size as claimed, and what goes by the names of this launcher.
Result<Launch> numbers(const Variables& variables, const Claim& claim) {
  Launch launch;
  launch.kind = claim.kind;
  launch.rank = claim.rank;
  launch.size = claim.size;
  const int most = claim.size > 0 ? claim.size : kMostRanks;
  if (variables.set(claim.names.local_rank)) {
    const auto local_rank = variables.number(claim.names.local_rank, 0, most - 1);
    if (!local_rank.ok()) return local_rank.status();
    launch.local_rank = static_cast<int>(*local_rank);
  }
  const auto local_size = variables.number(claim.names.local_size, 1, kMostRanks);
  launch.one_host = local_size.ok() && *local_size == claim.size;
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

Result<Launch> own(const Variables& variables, const Claim& claim, const Environment& environment) {
  auto launch = numbers(variables, claim);
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

Result<Launch> torchrun(const Variables& variables, const Claim& claim,
                        const Environment& environment) {
  auto launch = numbers(variables, claim);
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

Result<Launch> hydra(const Variables& variables, const Claim& claim) {
  const auto descriptor = variables.number("PMI_FD", 0, INT32_MAX);
  if (!descriptor.ok()) return descriptor.status();
  return numbers(variables, claim);
}

Result<Launch> pmix(const Variables& variables, const Claim& claim) {
  auto launch = numbers(variables, claim);
  if (launch.ok() && claim.size > 0) launch->one_host = slurm_has_one_host(variables);
  return launch;
}

Result<Launch> slurm(const Variables& variables, const Claim& claim,
                     const Environment& environment) {
  auto launch = numbers(variables, claim);
  if (!launch.ok() || launch->size == 1) return launch;
  const auto job = variables.number("SLURM_JOB_ID", 0, UINT32_MAX);
  if (!job.ok()) return job.status();
  const auto step = variables.number("SLURM_STEP_ID", 0, UINT32_MAX);
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

Result<Launch> launch_of(const Variables& variables, const Claim& claim,
                         const Environment& environment) {
  switch (claim.kind) {
    case LauncherKind::kOwn: return own(variables, claim, environment);
    case LauncherKind::kTorchrun: return torchrun(variables, claim, environment);
    case LauncherKind::kOpenMpi: return numbers(variables, claim);
    case LauncherKind::kHydra: return hydra(variables, claim);
    case LauncherKind::kPmix: return pmix(variables, claim);
    case LauncherKind::kSlurm: return slurm(variables, claim, environment);
  }
  return Status(Code::kInternal, "an unknown launcher");
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
  const auto belief = whom_to_believe(claims_of(variables));
  if (!belief.ok()) return belief.status();
  auto launch = launch_of(variables, belief->claim, environment);
  if (!launch.ok()) return launch;
  launch->origin = belief->claim.text();
  launch->overruled = belief->overruled;
  return launch;
}

}  // namespace banyan
