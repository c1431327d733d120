// The command line of banyan_tune.
// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <CLI/CLI.hpp>

#include "bench/machine.h"
#include "bench/perf/device.h"
#include "bench/perf/options.h"
#include "src/base/parse.h"

namespace banyan::tune {

namespace {

constexpr int kUsage = 2;
constexpr int kCannotBeTriedHere = 77;
constexpr int kLeastRanks = 2;  // one rank has nothing to choose
constexpr double kLeastBudget = 1;
constexpr double kMostBudget = 24 * 3600;

constexpr std::string_view kFooter =
    "Measures the algorithms of each collective over message sizes from 4 bytes to 64 MiB, and\n"
    "writes rules for where another than the default choice is faster. BANYAN_TUNE_FILE=FILE puts\n"
    "them to use. It ends within the budget and 5 seconds; the longer, the finer the sizes.\n"
    "With -d cuda, buffers are on GPUs, and NCCL inside hosts is tried, too.\n\n"
    "Exit status: 0, 1 a failed run, 2 a wrong command line, 77 no driver for -d cuda.\n\n"
    "Examples:\n"
    "  banyan_tune -n 4 --budget 60s -o tune.json\n"
    "  mpirun -n 16 banyan_tune --collectives allreduce,allgather -o tune.json";

struct Words {
  std::string ranks, budget, collectives, device;
};

CommandLine refusal(std::string_view text, int status = kUsage) {
  return {.options = std::nullopt,
          .status = status,
          .text = fmt::format("banyan_tune: {}\nbanyan_tune --help shows all options\n", text)};
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const std::string_view name : perf::pattern_names())
    if (!perf::is_pair(*perf::parse_pattern(name))) names.push_back(name);
  return names;
}

Status read_collectives(const std::string& text, std::vector<perf::Pattern>* collectives) {
  const auto names = collective_names();
  const std::string all = join(names, ",");
  for (const std::string_view word : split(text.empty() ? all : text, ',')) {
    const std::string_view name = trim(word);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const Status unknown = unknown_word("collective", name, names);
      return {unknown.code(), fmt::format("--collectives {}: {}", text, unknown.message())};
    }
    const perf::Pattern pattern = *perf::parse_pattern(name);
    if (std::find(collectives->begin(), collectives->end(), pattern) == collectives->end())
      collectives->push_back(pattern);
  }
  return {};
}

Status read_device(const std::string& text, perf::Home* home) {
  constexpr std::array<std::string_view, 1> kDevices = {"cuda"};
  if (text.empty()) return {};
  if (text != kDevices.front()) {
    const Status unknown = unknown_word("device", text, kDevices);
    return {unknown.code(), fmt::format("-d {}: {}", text, unknown.message())};
  }
  *home = perf::Home::kDevice;
  const Status driver = perf::find_driver();
  if (driver.ok()) return {};
  return {driver.code(), fmt::format("-d {}: {}", text, driver.message())};
}

Status read_words(const Words& words, Options* options) {
  if (!words.ranks.empty()) {
    const auto ranks = parse_integer(words.ranks, kLeastRanks, perf::kMostLocalRanks);
    if (!ranks.ok())
      return {Code::kInvalidArgument,
              fmt::format("-n {}: {}", words.ranks, ranks.status().message())};
    options->ranks = static_cast<int>(*ranks);
  }
  if (!words.budget.empty()) {
    const auto budget = parse_duration(words.budget);
    if (!budget.ok())
      return {Code::kInvalidArgument,
              fmt::format("--budget {}: {}", words.budget, budget.status().message())};
    if (!(*budget >= kLeastBudget && *budget <= kMostBudget))
      return {Code::kInvalidArgument, fmt::format("--budget {}: must be from {}s to {}s",
                                                  words.budget, kLeastBudget, kMostBudget)};
    options->budget_s = *budget;
  }
  BANYAN_TRY(read_collectives(words.collectives, &options->collectives));
  return read_device(words.device, &options->home);  // the last: 77 means that the others are right
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  Words words;
  Options options;
  CLI::App app("Finds the fastest algorithm for each message size.", "banyan_tune");
  app.add_option("-n", words.ranks, "start this many local ranks; without it, the launcher's")
      ->type_name("RANKS");
  app.add_option("--budget", words.budget, "how long to measure (60s; us, ms, s)")
      ->type_name("TIME");
  app.add_option("--collectives", words.collectives, "which, by comma (all)")->type_name("LIST");
  app.add_option("-d", words.device, "buffers in the memory of a GPU: cuda")->type_name("DEVICE");
  app.add_option("-o", options.output, "the tuning file to write (banyan_tune.json)")
      ->type_name("FILE");
  app.set_version_flag("--version", fmt::format("banyan_tune {}", version_text()));
  app.footer(std::string(kFooter));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return {.options = std::nullopt, .status = 0, .text = fmt::format("{}\n", version.what())};
  } catch (const CLI::CallForHelp&) {
    return {.options = std::nullopt, .status = 0, .text = app.help()};
  } catch (const CLI::ParseError& error) {
    return refusal(error.what());
  }
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        return refusal(
            fmt::format("{} '': an empty value; leave it out or give one", option->get_name()));
  if (const Status status = read_words(words, &options); !status.ok())
    return refusal(status.message(),
                   status.code() == Code::kUnsupported ? kCannotBeTriedHere : kUsage);
  return {.options = options, .status = 0, .text = {}};
}

}  // namespace banyan::tune
