// Slurm's host lists and our ports under it.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/slurm.h"

#include <fmt/format.h>

#include <algorithm>

namespace banyan {
namespace {

constexpr uint64_t kFirstPort = 61008;  // the kernel's own choice ends at 60999
constexpr uint64_t kPortsPerStep = 16;
constexpr uint64_t kSteps = 282;  // 61008 + 282 * 16 = 65520
constexpr size_t kListMost = 64 * 1024;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_host_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_';
}

Status malformed(std::string_view list, size_t at) {
  return {Code::kInvalidArgument,
          fmt::format("the list of hosts '{}' is malformed at position {}; expected something like "
                      "a[1-3,7],b",
                      list.substr(0, 200), at + 1)};
}

uint64_t mix(uint64_t value) {  // the finaliser of splitmix64
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Result<std::string> first_host(std::string_view node_list) {
  if (node_list.size() > kListMost) return malformed(node_list, kListMost);
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ',';) {
    const char c = node_list[at];
    if (is_host_character(c)) {
      host += c;
      ++at;
      continue;
    }
    if (c != '[') return malformed(node_list, at);
    // Takes the first number in the brackets, as it is written: "[08-12,20]" begins with 08.
    const size_t close = node_list.find(']', at);
    size_t end = at + 1;
    while (end < node_list.size() && is_digit(node_list[end])) ++end;
    const bool ends_well =
        end < node_list.size() &&
        (node_list[end] == '-' || node_list[end] == ',' || node_list[end] == ']');
    if (close == std::string_view::npos || end == at + 1 || !ends_well) {
      return malformed(node_list, end);
    }
    const auto inside = node_list.substr(at + 1, close - at - 1);
    const auto valid = [](char d) { return is_digit(d) || d == '-' || d == ','; };
    if (!std::all_of(inside.begin(), inside.end(), valid)) return malformed(node_list, at);
    host += node_list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  if (host.empty()) return malformed(node_list, 0);
  return host;
}

std::vector<uint16_t> step_ports(uint64_t job, uint64_t step, const PortRange& range) {
  const uint64_t digest = mix(job * 0x9e3779b97f4a7c15u + step + 1);
  std::vector<uint16_t> ports;
  if (range.first != 0) {
    const uint64_t count = static_cast<uint64_t>(range.last - range.first) + 1;
    for (uint64_t i = 0; i < std::min(count, kPortsPerStep); ++i) {
      ports.push_back(static_cast<uint16_t>(range.first + (digest + i) % count));
    }
  } else {
    const uint64_t first = kFirstPort + digest % kSteps * kPortsPerStep;
    for (uint64_t i = 0; i < kPortsPerStep; ++i) ports.push_back(static_cast<uint16_t>(first + i));
  }
  return ports;
}

}  // namespace banyan
