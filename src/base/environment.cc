// The table of variables, and their values checked.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/environment.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>

#include "src/base/parse.h"

namespace banyan {

namespace {

constexpr std::string_view kPrefix = "BANYAN_";
constexpr std::string_view kOfTests = "BANYAN_TEST_";  // which tell tests where something is

constexpr std::array<Variable, 23> kVariables = {{
    {"BANYAN_RANK", "", "Number of this rank, from 0, where no launcher sets it."},
    {"BANYAN_SIZE", "", "Number of ranks, where no launcher sets it."},
    {"BANYAN_LOCAL_RANK", "", "Number of this rank among those of its host, from 0."},
    {"BANYAN_ADDRESS", "", "HOST:PORT at which rank 0 waits for the others."},
    {"BANYAN_SECRET", "",
     "Key that all ranks share; required where BANYAN_ADDRESS is not loopback.", true},
    {"BANYAN_ALGO", "",
     "Which algorithm a call gets: a name, or rules such as 'allreduce size=0-32K: "
     "recursive_doubling; ^direct'; chosen by size and ranks where unset. 'explain' has rank 0 say "
     "what every call gets."},
    {"BANYAN_TRANSPORTS", "",
     "Transports to use, preferred first ('shm,ucx'), or to leave out ('^ucx'); all where unset."},
    {"BANYAN_NET_DEVICES", "",
     "Network devices for the ucx transport ('mlx5_0:1,eth0'), or to leave out ('^lo'); where "
     "unset all that are up and lead to the other hosts. UCX_TLS has no effect. "
     "BANYAN_TOPO_FILE's levels are those of these."},
    {"BANYAN_SINGLE_COPY", "auto",
     "From which length on a rank reads messages straight from the memory of ranks of its host: a "
     "size such as 64K, never, or auto, which measures when the ranks meet and goes on doing so."},
    {"BANYAN_GPU_DIRECT", "auto",
     "Whether messages between hosts go straight from and to the memory of GPUs, for which UCX "
     "must know CUDA: on, off, or auto, which does so by RDMA and not by TCP."},
    {"BANYAN_COMPRESS", "off",
     "Codec by which sums of floats travel: off, int8, topk:0.01, auto, or "
     "inter=CODEC,intra=CODEC."},
    {"BANYAN_TUNE_FILE", "",
     "File of measured choices that banyan_tune writes; rank 0 reads it for all ranks, and "
     "BANYAN_ALGO goes before it."},
    {"BANYAN_TOPO_FILE", "",
     "Description of the machine or cluster to go by, in any format that banyan_info --topo --from "
     "reads; rank 0's counts."},
    {"BANYAN_TOPO_DUMP", "",
     "File that rank 0 writes the machine or cluster to, as JSON, when the ranks have met."},
    {"BANYAN_TIMEOUT", "30s",
     "Longest time that one operation may take (us, ms, s; inf: no limit)."},
    {"BANYAN_INIT_TIMEOUT", "60s",
     "Longest time to wait for all ranks at the start (us, ms, s; inf: no limit)."},
    {"BANYAN_DEBUG", "warn",
     "What is logged: off, error, warn, info or trace, or a list of subsystem=level."},
    {"BANYAN_DEBUG_FILE", "",
     "File for the log instead of stderr; %h is the host, %p the process, %r the rank."},
    {"BANYAN_SOCKET_IFNAME", "",
     "Network interface on which ranks listen while they find each other, such as lo or eth0; "
     "where unset the one by which they met, else one that leads to all other hosts."},
    {"BANYAN_PORT_RANGE", "",
     "Ports on which ranks may listen while they find each other, A-B; the kernel chooses where "
     "unset."},
    {"BANYAN_CHECK", "on",
     "Whether arguments of a call are compared between ranks before memory is written."},
    {"BANYAN_NCCL_LIBRARY", "",
     "Library of NCCL that BANYAN_ALGO's intra=nccl uses, as a path or a name that the loader "
     "knows; libnccl.so.2 where unset."},
    {"BANYAN_SYSROOT", "",
     "Folder to read /sys and /proc from instead of / where the machine is discovered."},
}};

// An empty value is no value.
std::string_view value_of(const RawEnvironment& raw, std::string_view name) {
  const std::string* value = raw.find(name);
  return value == nullptr ? std::string_view() : std::string_view(*value);
}

Status wrong(Code code, std::string_view name, std::string_view value, std::string_view why) {
  return {code, fmt::format("{}={}: {}", name, value, why)};
}

Status read_duration(const RawEnvironment& raw, std::string_view name, double* seconds) {
  const std::string_view value = value_of(raw, name);
  if (value.empty()) return {};
  const auto parsed = parse_duration(value);
  if (!parsed.ok()) return wrong(Code::kInvalidArgument, name, value, parsed.status().message());
  if (*parsed <= 0)
    return wrong(Code::kInvalidArgument, name, value, "must be more than 0 (5s, 200ms, 50us, inf)");
  *seconds = *parsed;
  return {};
}

Status read_ports(const RawEnvironment& raw, PortRange* range) {
  constexpr std::string_view kName = "BANYAN_PORT_RANGE";
  const std::string_view value = value_of(raw, kName);
  if (value.empty()) return {};
  const size_t dash = value.find('-');
  if (dash != std::string_view::npos) {
    const auto first = parse_integer(value.substr(0, dash), 1, 65535);
    const auto last = parse_integer(value.substr(dash + 1), 1, 65535);
    if (first.ok() && last.ok() && *first <= *last) {
      *range = {static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
      return {};
    }
  }
  return wrong(Code::kInvalidArgument, kName, value,
               "is not A-B with 1 <= A <= B <= 65535 (such as 20000-20100)");
}

Result<std::vector<std::string>> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    const int cause = errno;
    return Status(Code::kSystem, fmt::format("cannot list the network interfaces: {}",
                                             std::generic_category().message(cause)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> names;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (std::find(names.begin(), names.end(), item->ifa_name) == names.end())
      names.emplace_back(item->ifa_name);
  }
  return names;
}

Status read_interface(const RawEnvironment& raw, std::string* name) {
  constexpr std::string_view kName = "BANYAN_SOCKET_IFNAME";
  const std::string_view value = value_of(raw, kName);
  if (value.empty()) return {};
  const auto names = interfaces();
  if (!names.ok()) return wrong(names.status().code(), kName, value, names.status().message());
  if (std::find(names->begin(), names->end(), value) == names->end())
    return wrong(Code::kInvalidArgument, kName, value,
                 fmt::format("this host has no such interface; it has: {}",
                             fmt::join(names->begin(), names->end(), ", ")));
  *name = value;
  return {};
}

Status read_debug(const RawEnvironment& raw, LogLevels* levels) {
  constexpr std::string_view kName = "BANYAN_DEBUG";
  const std::string_view value = value_of(raw, kName);
  if (value.empty()) return {};
  const auto parsed = parse_log_levels(value);
  if (!parsed.ok()) return wrong(Code::kInvalidArgument, kName, value, parsed.status().message());
  *levels = *parsed;
  return {};
}

Status read_check(const RawEnvironment& raw, bool* check) {
  constexpr std::string_view kName = "BANYAN_CHECK";
  const std::string_view value = value_of(raw, kName);
  if (value.empty()) return {};
  const auto parsed = parse_switch(value);
  if (!parsed.ok()) return wrong(Code::kInvalidArgument, kName, value, parsed.status().message());
  *check = *parsed;
  return {};
}

Status read_single_copy(const RawEnvironment& raw, std::optional<uint64_t>* least) {
  constexpr std::string_view kName = "BANYAN_SINGLE_COPY";
  const std::string_view value = value_of(raw, kName);
  if (value.empty() || value == "auto") return {};
  if (value == "never") {
    *least = 0;
    return {};
  }
  const auto bytes = parse_size(value);
  if (!bytes.ok() || *bytes == 0)
    return wrong(Code::kInvalidArgument, kName, value,
                 "is not auto, never or a size of at least 1 (such as 64K)");
  *least = *bytes;
  return {};
}

Status read_gpu_direct(const RawEnvironment& raw, std::optional<bool>* direct) {
  constexpr std::string_view kName = "BANYAN_GPU_DIRECT";
  const std::string_view value = value_of(raw, kName);
  if (value.empty() || value == "auto") return {};
  const auto parsed = parse_switch(value);
  if (!parsed.ok())
    return wrong(Code::kInvalidArgument, kName, value,
                 fmt::format("{}, or auto", parsed.status().message()));
  *direct = *parsed;
  return {};
}

// Which codecs there are is not known here.
Status read_compress(const RawEnvironment& raw, std::string* compress) {
  const std::string_view value = trim(value_of(raw, "BANYAN_COMPRESS"));
  *compress = value.empty() ? "off" : value;
  return {};
}

bool known(std::string_view name) {
  return std::any_of(kVariables.begin(), kVariables.end(),
                     [&](const Variable& variable) { return variable.name == name; });
}

}  // namespace

std::span<const Variable> variables() {
  return kVariables;
}

RawEnvironment RawEnvironment::of_process() {
  const bool foreign_rights = ::getauxval(AT_SECURE) != 0;
  std::vector<std::pair<std::string, std::string>> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (foreign_rights && name.starts_with(kPrefix)) continue;
    entries.emplace_back(name, text.substr(equals + 1));
  }
  return RawEnvironment(std::move(entries));
}

const std::string* RawEnvironment::find(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return value.empty() && name.starts_with(kPrefix) ? nullptr : &value;
  }
  return nullptr;
}

Reading read_environment(const RawEnvironment& raw) {
  Reading reading;
  Environment& values = reading.values;
  values.algorithm = value_of(raw, "BANYAN_ALGO");
  values.transports = value_of(raw, "BANYAN_TRANSPORTS");
  values.net_devices = value_of(raw, "BANYAN_NET_DEVICES");
  values.tune_file = value_of(raw, "BANYAN_TUNE_FILE");
  values.secret = value_of(raw, "BANYAN_SECRET");
  values.debug_file = value_of(raw, "BANYAN_DEBUG_FILE");
  values.topology_file = value_of(raw, "BANYAN_TOPO_FILE");
  values.topology_dump = value_of(raw, "BANYAN_TOPO_DUMP");
  values.sysroot = value_of(raw, "BANYAN_SYSROOT");
  values.nccl_library = value_of(raw, "BANYAN_NCCL_LIBRARY");
  values.ucx_net_devices = !value_of(raw, "UCX_NET_DEVICES").empty();
  values.ucx_tls = value_of(raw, "UCX_TLS");
  for (const Status& status :
       {read_compress(raw, &values.compress), read_single_copy(raw, &values.single_copy_least),
        read_gpu_direct(raw, &values.gpu_direct), read_interface(raw, &values.socket_interface),
        read_debug(raw, &values.debug), read_duration(raw, "BANYAN_TIMEOUT", &values.timeout_s),
        read_duration(raw, "BANYAN_INIT_TIMEOUT", &values.init_timeout_s),
        read_ports(raw, &values.port_range), read_check(raw, &values.check)}) {
    if (!status.ok()) reading.wrong.push_back(status);
  }
  return reading;
}

Result<Environment> parse_environment(const RawEnvironment& raw) {
  Reading reading = read_environment(raw);
  if (!reading.wrong.empty()) return reading.wrong.front();
  return std::move(reading.values);
}

std::vector<std::string> unknown_variables(const RawEnvironment& raw) {
  std::vector<std::string_view> names;
  for (const Variable& variable : kVariables) names.push_back(variable.name);
  std::vector<std::string> warnings;
  for (const auto& [name, value] : raw.entries()) {
    if (!name.starts_with(kPrefix) || name.starts_with(kOfTests) || known(name)) continue;
    warnings.push_back(fmt::format("{} is unknown; did you mean {}?", name, nearest(name, names)));
  }
  return warnings;
}

}  // namespace banyan
