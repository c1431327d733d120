// The machine is read from uname, /proc and the affinity mask. What cannot be read stays empty or
// zero.
// SPDX-License-Identifier: Apache-2.0

#include "bench/machine.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <charconv>
#include <fstream>
#include <string_view>

#include "banyan/banyan.h"
#include "src/base/parse.h"
#include "src/base/processor.h"

namespace banyan {

namespace {

// The text behind "KEY :" in a file of such lines.
std::string field_of(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == key)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

// "24690000 kB"
uint64_t kilobytes(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value * 1024;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname names{};
  if (::uname(&names) == 0) {
    machine.host = names.nodename;
    machine.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  }
  machine.cpu = processor_model();
  machine.cores = online_cores();
  machine.memory_bytes = kilobytes(field_of("/proc/meminfo", "MemTotal"));
  machine.available_bytes = kilobytes(field_of("/proc/meminfo", "MemAvailable"));
  return machine;
}

std::string version_text() {
  const int version = banyan_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace banyan
