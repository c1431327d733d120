// SPDX-License-Identifier: Apache-2.0

#include "transports/net_devices.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace banyan
