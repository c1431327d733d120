// SPDX-License-Identifier: Apache-2.0

#include "transports/net_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr std::string_view kAll = "all";

// Sorted; none where there is no such folder.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string_view without_port(std::string_view device) {
  return device.substr(0, device.find(':'));
}

// "lo, mlx5_0, mlx5_0:1, mlx5_0:2, all"
std::string valid_words(std::span<const std::string> devices) {
  std::vector<std::string_view> words;
  for (const std::string& device : devices) {
    const std::string_view name = without_port(device);
    if (name != device && (words.empty() || without_port(words.back()) != name))
      words.push_back(name);
    words.push_back(device);
  }
  words.push_back(kAll);
  return join(words);
}

}  // namespace

std::vector<std::string> net_devices(const std::filesystem::path& sys) {
  std::vector<std::string> devices;
  for (const std::string& name : names_in(sys / "net")) {
    const std::string state = first_line(sys / "net" / name / "operstate");
    if (state == "up" || state == "unknown") devices.push_back(name);  // loopback does not know
  }
  for (const std::string& name : names_in(sys / "infiniband")) {
    const std::filesystem::path ports = sys / "infiniband" / name / "ports";
    for (const std::string& port : names_in(ports))
      if (first_line(ports / port / "state").starts_with("4"))  // "4: ACTIVE"
        devices.push_back(fmt::format("{}:{}", name, port));
  }
  return devices;
}

Result<std::string> choose_net_devices(std::string_view text,
                                       std::span<const std::string> devices) {
  const std::string_view list = trim(text);
  const bool excluding = list.starts_with('^');
  if (list.empty() || devices.empty()) return std::string(list);
  std::vector<bool> named(devices.size());
  bool all = false;
  int position = 0;
  for (const std::string_view raw : split(list.substr(excluding ? 1 : 0), ',')) {
    const std::string_view word = trim(raw);
    ++position;
    bool known = word == kAll;
    all = all || known;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i] != word && without_port(devices[i]) != word) continue;
      named[i] = true;
      known = true;
    }
    if (!known)
      return Status(Code::kInvalidArgument,
                    fmt::format("BANYAN_NET_DEVICES={}: word {} '{}' is no network device of this "
                                "machine that is up; valid: {}",
                                list, position, word, valid_words(devices)));
  }
  if (all && !excluding) return std::string(kAll);
  std::vector<std::string_view> chosen;
  for (size_t i = 0; i < devices.size(); ++i)
    if ((named[i] || all) != excluding) chosen.push_back(devices[i]);
  if (!chosen.empty()) return join(chosen, ",");
  return Status(Code::kInvalidArgument, fmt::format("BANYAN_NET_DEVICES={} leaves none; valid: {}",
                                                    list, valid_words(devices)));
}

Result<std::string> leading_out(std::string_view text, const std::string& chosen,
                                std::span<const std::string> devices,
                                std::span<const Interface> interfaces) {
  const auto known = [&](std::string_view device) {
    return std::find_if(interfaces.begin(), interfaces.end(),
                        [&](const Interface& one) { return one.name == device; });
  };
  const bool any = chosen.empty() || chosen == kAll;
  const bool nothing_lost = std::all_of(
      interfaces.begin(), interfaces.end(),
      [&](const Interface& one) { return one.dead_end.empty() || (any && one.loopback); });
  if (nothing_lost || devices.empty()) return chosen;
  std::vector<std::string_view> left;
  std::vector<std::string> lost;
  for (const std::string_view device :
       any ? std::vector<std::string_view>(devices.begin(), devices.end()) : split(chosen, ',')) {
    const auto one = known(device);
    const bool rdma = device.find(':') != std::string_view::npos;
    if (one != interfaces.end() && !one->dead_end.empty())
      lost.push_back(fmt::format("{}: {}", device, one->dead_end));
    else if (one != interfaces.end() || rdma || !any)  // without an address UCX has no use for it
      left.push_back(device);
  }
  if (!left.empty()) return join(left, ",");
  std::vector<std::string_view> others;
  for (const Interface& one : interfaces)
    if (one.dead_end.empty()) others.push_back(one.name);
  const std::string why = join(std::vector<std::string_view>(lost.begin(), lost.end()), "; ");
  if (any)
    return Status(Code::kSystem,
                  fmt::format("no network device leads to this host from the others: {}", why));
  return Status(
      Code::kInvalidArgument,
      fmt::format("BANYAN_NET_DEVICES={}: none leads to this host from the others: {}; {}", text,
                  why,
                  others.empty() ? "and no other does"
                                 : fmt::format("name others ({}), or unset it", join(others))));
}

std::string rate_of_device(const std::string& device, const std::filesystem::path& sys) {
  const size_t colon = device.find(':');
  double gigabits = 0;
  if (colon != std::string::npos) {  // "100 Gb/sec (4X EDR)"
    const std::string rate = first_line(sys / "infiniband" / device.substr(0, colon) / "ports" /
                                        device.substr(colon + 1) / "rate");
    if (std::sscanf(rate.c_str(), "%lf Gb/sec", &gigabits) != 1) return {};
  } else {
    const auto megabits = parse_integer(first_line(sys / "net" / device / "speed"), 1, 1 << 30);
    if (!megabits.ok()) return {};
    gigabits = static_cast<double>(*megabits) / 1000;
  }
  return gigabits > 0 ? fmt::format("{:g} Gb/s", gigabits) : std::string();
}

}  // namespace banyan
