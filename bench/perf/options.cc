// The command line of banyan_perf: CLI11 finds the words, this file says what they may be.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include <CLI/CLI.hpp>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/select.h"
#include "bench/machine.h"
#include "bench/perf/device.h"
#include "src/base/environment.h"
#include "src/base/parse.h"
#include "src/base/same_word.h"
#include "transports/transport.h"

namespace banyan::perf {

namespace {

constexpr int kUsage = 2;
constexpr int kCannotBeTriedHere = 77;
constexpr uint64_t kMostBytes = uint64_t{1024} << 30;
constexpr uint64_t kSmall = 8192;  // OSU's border between many and few iterations

constexpr std::string_view kFooter =
    "COLLECTIVE: allreduce allgather reduce_scatter broadcast reduce alltoall gather scatter\n"
    "            barrier, and between ranks 0 and 1: latency bw bibw\n"
    "TYPE:       float32 float16 bfloat16 float64 int8 uint8 int32 uint32 int64 uint64\n"
    "            float8_e4m3 float8_e5m2, or fp16 bf16 fp32 fp64\n"
    "OP:         sum prod min max avg\n"
    "Sizes take K M G (powers of 1,024). Bytes are those of the call's count: per rank, or per\n"
    "pair of ranks.\n\n"
    "Exit status: 0, 1 a failed run or a wrong element, 2 a wrong command line, 77 cannot be\n"
    "tried here.\n\n"
    "Examples:\n"
    "  banyan_perf allreduce -n 4 -m 4:64M -c\n"
    "  banyan_perf latency -n 2 -m 1:4K -z\n"
    "  mpirun -n 4 banyan_perf allgather -T bfloat16 --json -";

// The words as given; empty: not given.
struct Words {
  std::string collective, ranks, sizes, iterations, warm_up, rounds, type, op, device, determinism;
  bool shared = false;
};

void declare(CLI::App& app, Words& words, Options& options) {
  app.add_option("COLLECTIVE", words.collective, "what to measure")->type_name("");
  app.add_option("-n", words.ranks, "start this many local ranks; without it, the launcher's")
      ->type_name("RANKS");
  app.add_option("-m", words.sizes,
                 "message bytes, doubling (4:64M; MIN: and :MAX leave the other end; one value: "
                 "that size)")
      ->type_name("MIN:MAX");
  app.add_option("-i", words.iterations, "iterations (1000 up to 8192 bytes, 100 above)")
      ->type_name("N");
  app.add_option("-x", words.warm_up, "warm-up iterations (200 up to 8192 bytes, 10 above)")
      ->type_name("N");
  app.add_option("--rounds", words.rounds, "repeat the whole sweep")->type_name("N");
  app.add_option("-T", words.type, "data type (float32)")->type_name("TYPE");
  app.add_option("-o", words.op, "operation (sum)")->type_name("OP");
  app.add_flag("-c", options.check, "validate every size against an fp64 reference");
  app.add_flag("-f", options.full, "also minimum, maximum and iterations");
  app.add_flag("-z", options.tails, "also the 50th, 90th and 99th percentile");
  app.add_flag("-l", options.in_place, "in place");
  app.add_flag("--shared", words.shared, "buffers from banyan_mem_alloc");
  app.add_flag("--fresh", options.fresh, "write the inputs anew before every call, not timed");
  app.add_option("-d", words.device, "buffers in the memory of a GPU, or managed: cuda, managed")
      ->type_name("DEVICE");
  app.add_flag("--bind", options.bind, "pin local rank r to core r modulo cores");
  app.add_option("--algo", options.algorithm, "as BANYAN_ALGO")->type_name("A");
  app.add_option("--transports", options.transports, "as BANYAN_TRANSPORTS")->type_name("T");
  app.add_option("--compress", options.compress, "as BANYAN_COMPRESS")->type_name("C");
  app.add_option("--determinism", words.determinism,
                 "of sums of floats: deterministic (default), invariant")
      ->type_name("D");
  app.add_option("--csv", options.csv, "write rows to FILE; -: to stdout, and nothing else")
      ->type_name("FILE");
  app.add_option("--json", options.json, "write a report to FILE; -: to stdout, nothing else")
      ->type_name("FILE");
  app.set_version_flag("--version", fmt::format("banyan_perf {}", version_text()));
  app.footer(std::string(kFooter));
}

// An error of an option: its name and value in front.
Status about(std::string_view option, std::string_view value, const Status& status) {
  return {status.code(), fmt::format("{} {}: {}", option, value, status.message())};
}

Status read_number(std::string_view option, const std::string& text, int64_t least, int64_t most,
                   int64_t* value) {
  if (text.empty()) return {};
  const auto parsed = parse_integer(text, least, most);
  if (!parsed.ok()) return about(option, text, parsed.status());
  *value = *parsed;
  return {};
}

Status read_iterations(std::string_view option, const std::string& text, int64_t least,
                       std::optional<uint64_t>* value) {
  if (text.empty()) return {};
  int64_t number = 0;
  BANYAN_TRY(read_number(option, text, least, std::numeric_limits<int64_t>::max(), &number));
  *value = static_cast<uint64_t>(number);
  return {};
}

Status read_sizes(const std::string& text, Options& options) {
  if (text.empty()) return {};
  const auto parts = split(text, ':');
  const auto wrong = [&](std::string_view why) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("-m {}: {}; write MIN:MAX, MIN:, :MAX or one size, such as 4:64M", text, why));
  };
  if (parts.size() > 2) return wrong("more than one colon");
  if (parts.front().empty() && parts.back().empty()) return wrong("neither MIN nor MAX");
  const auto read = [](std::string_view part, uint64_t* bytes) -> Status {
    if (part.empty()) return {};  // an open end
    const auto size = parse_size(part);
    BANYAN_TRY(size.status());
    *bytes = *size;
    return {};
  };
  if (const Status least = read(parts.front(), &options.least_bytes); !least.ok())
    return wrong(least.message());
  if (const Status most = read(parts.back(), &options.most_bytes); !most.ok())
    return wrong(most.message());
  if (options.most_bytes > kMostBytes) return wrong("MAX is more than 1024G");
  if (options.least_bytes > options.most_bytes)
    return wrong(parts.front().empty()  ? "MAX is less than 4, which MIN is where it is left out"
                 : parts.back().empty() ? "MIN is more than 64M, which MAX is where it is left out"
                                        : "MIN is more than MAX");
  return {};
}

Status read_words(const Words& words, Options& options) {
  if (words.collective.empty()) {
    return {Code::kInvalidArgument,
            fmt::format("no COLLECTIVE given; valid: {}", join(pattern_names()))};
  }
  const auto pattern = parse_pattern(words.collective);
  if (!pattern.ok()) return pattern.status();
  options.pattern = *pattern;
  int64_t ranks = 0;
  int64_t rounds = 1;
  BANYAN_TRY(read_number("-n", words.ranks, 1, kMostLocalRanks, &ranks));
  BANYAN_TRY(read_number("--rounds", words.rounds, 1, 1000000, &rounds));
  options.ranks = static_cast<int>(ranks);
  options.rounds = static_cast<int>(rounds);
  BANYAN_TRY(read_iterations("-i", words.iterations, 1, &options.iterations));
  BANYAN_TRY(read_iterations("-x", words.warm_up, 0, &options.warm_up));
  BANYAN_TRY(read_sizes(words.sizes, options));
  if (!words.type.empty()) {
    const auto type = parse_data_type(words.type);
    if (!type.ok()) return about("-T", words.type, type.status());
    options.type = *type;
  }
  if (!words.op.empty()) {
    const auto op = parse_reduce_op(words.op);
    if (!op.ok()) return about("-o", words.op, op.status());
    options.op = *op;
  }
  if (!words.determinism.empty()) {
    constexpr std::array<std::string_view, 2> kValid = {"deterministic", "invariant"};
    options.invariant = same_word(words.determinism, kValid[1]);
    if (!options.invariant && !same_word(words.determinism, kValid[0]))
      return about("--determinism", words.determinism,
                   unknown_word("determinism", words.determinism, kValid));
  }
  return {};
}

// Unlike BANYAN_ALGO, which is for whatever a program calls, it must be of use to what is measured.
// Messages need no algorithm.
Status check_algorithm(const Options& options) {
  if (options.algorithm.empty()) return {};
  const auto read = parse_algorithm_variable(options.algorithm);
  if (!read.ok()) return about("--algo", options.algorithm, read.status());
  const auto collective = parse_collective(name_of(options.pattern));
  if (!collective.ok() || read->rules.empty() || any_applies(read->rules, *collective)) return {};
  return {Code::kInvalidArgument,
          fmt::format("--algo: {}", has_none_for(*collective, options.algorithm).message())};
}

Status check_transports(const Options& options) {
  if (options.transports.empty()) return {};
  const auto transports = parse_transports(options.transports);
  if (transports.ok()) return {};
  return about("--transports", options.transports, transports.status());
}

Status check_compression(const Options& options) {
  if (options.compress.empty()) return {};
  const Status status = parse_compression(options.compress).status();
  if (status.ok()) return {};
  return {status.code(), fmt::format("--compress: {}", status.message())};
}

Status check_together(const Options& options) {
  if (options.csv == "-" && options.json == "-")
    return {Code::kInvalidArgument,
            "--csv - and --json - both want stdout; give one of them a file"};
  if (!options.csv.empty() && options.csv == options.json)
    return {Code::kInvalidArgument,
            fmt::format("--csv {0} and --json {0}: give them different files", options.csv)};
  if (is_pair(options.pattern) && options.ranks == 1)
    return {Code::kInvalidArgument,
            fmt::format("-n 1: {} is between two ranks; at least 2", name_of(options.pattern))};
  return {};
}

Status read_home(const Words& words, Options& options) {
  constexpr std::array<std::string_view, 2> kDevices = {"cuda", "managed"};
  if (words.shared) options.home = Home::kShared;
  if (words.device.empty()) return {};
  if (words.shared)
    return {Code::kInvalidArgument, fmt::format("-d {} --shared: give one of them", words.device)};
  if (std::find(kDevices.begin(), kDevices.end(), words.device) == kDevices.end())
    return about("-d", words.device, unknown_word("device", words.device, kDevices));
  options.home = words.device == "cuda" ? Home::kDevice : Home::kManaged;
  Status driver = find_driver();
  if (driver.ok()) return driver;
  return {driver.code(), fmt::format("-d {}: {}; without -d, buffers are memory of the host",
                                     words.device, driver.message())};
}

Status check_not_empty(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        return {Code::kInvalidArgument,
                fmt::format("{} '': an empty value; leave it out or give one", option->get_name())};
  return {};
}

CommandLine refusal(const Status& status) {
  const bool unsupported = status.code() == Code::kUnsupported;
  return {.options = std::nullopt,
          .status = unsupported ? kCannotBeTriedHere : kUsage,
          .text = fmt::format("banyan_perf: {}\n{}", status.message(),
                              unsupported ? "" : "banyan_perf --help shows all options\n")};
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  Words words;
  Options options;
  CLI::App app("Measures the collectives and messages of Banyan.", "banyan_perf");
  declare(app, words, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return {.options = std::nullopt, .status = 0, .text = fmt::format("{}\n", version.what())};
  } catch (const CLI::CallForHelp&) {
    return {.options = std::nullopt, .status = 0, .text = app.help()};
  } catch (const CLI::ParseError& error) {
    return refusal({Code::kInvalidArgument, error.what()});
  }
  if (const Status empty = check_not_empty(app); !empty.ok()) return refusal(empty);
  // Wrong words before what cannot be tried here: 77 means that the line itself was right.
  for (const Status& status : {read_words(words, options), check_together(options)}) {
    if (!status.ok()) return refusal(status);
  }
  const std::array<Status, 4> others = {read_home(words, options), check_algorithm(options),
                                        check_transports(options), check_compression(options)};
  for (const Status& status : others) {
    if (!status.ok() && status.code() != Code::kUnsupported) return refusal(status);
  }
  for (const Status& status : others) {
    if (!status.ok()) return refusal(status);
  }
  return {.options = options, .status = 0, .text = {}};
}

std::vector<Size> sizes_of(const Options& options) {
  if (options.pattern == Pattern::kBarrier) return {Size{}};
  const uint64_t element = size_of(options.type);
  std::vector<Size> sizes;
  for (uint64_t bytes = std::max<uint64_t>(options.least_bytes, 1);; bytes *= 2) {
    const uint64_t count = std::max<uint64_t>(bytes / element, 1);
    if (sizes.empty() || sizes.back().count != count) sizes.push_back({count, count * element});
    if (bytes > options.most_bytes / 2) return sizes;
  }
}

uint64_t iterations_at(const Options& options, uint64_t bytes) {
  return options.iterations.value_or(bytes <= kSmall ? 1000 : 100);
}

uint64_t warm_up_at(const Options& options, uint64_t bytes) {
  return options.warm_up.value_or(bytes <= kSmall ? 200 : 10);
}

}  // namespace banyan::perf
