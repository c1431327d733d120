// The command line of banyan_info.
// SPDX-License-Identifier: Apache-2.0

#include "bench/info/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "algorithms/algorithms.h"
#include "bench/machine.h"
#include "src/base/parse.h"

namespace banyan::info {

namespace {

constexpr int kUsage = 2;
constexpr int kMostRanks = 1024;
constexpr int kMostDrawn = 64;
constexpr std::string_view kForm =
    "COLLECTIVE:ALGORITHM:RANKS[:RANK], such as allreduce:ring:5 or allreduce:ring:5:0";

constexpr std::string_view kFooter =
    "Without --env and --schedule: version, build, transports and this machine.\n"
    "Not in this version: --topo --explain --doctor --from --nodes --ranks-per-node\n\n"
    "Exit status: 0, 1 a failure, 2 a wrong command line.\n\n"
    "Examples:\n"
    "  banyan_info --env\n"
    "  banyan_info --schedule allreduce:ring:5:2\n"
    "  banyan_info --schedule broadcast:binomial:8 --svg > broadcast.svg";

std::vector<std::string_view> names_that_fit(Collective collective) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.fits(collective)) names.push_back(algorithm.name);
  }
  return names;
}

// Collectives that have algorithms; a message has none.
std::vector<std::string_view> names_of_collectives() {
  std::vector<std::string_view> names;
  for (int i = 0; i < static_cast<int>(Collective::kSend); ++i)
    names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

CommandLine refusal(std::string_view text) {
  return {.options = std::nullopt,
          .status = kUsage,
          .text = fmt::format("banyan_info: {}\nbanyan_info --help shows all options\n", text)};
}

struct Words {
  std::string schedule;
  bool json = false;
  bool dot = false;
  bool svg = false;
};

Status read_words(const Words& words, Options& options) {
  if (static_cast<int>(words.json) + static_cast<int>(words.dot) + static_cast<int>(words.svg) > 1)
    return {Code::kInvalidArgument, "--json, --dot and --svg: give one of them"};
  options.form = words.json  ? Form::kJson
                 : words.dot ? Form::kDot
                 : words.svg ? Form::kSvg
                             : Form::kText;
  const bool drawn = words.dot || words.svg;
  if (words.schedule.empty()) {
    if (!drawn) return {};
    return {Code::kInvalidArgument,
            fmt::format("{} draws a schedule: give --schedule too", words.dot ? "--dot" : "--svg")};
  }
  if (options.environment)
    return {Code::kInvalidArgument, "--env and --schedule: give one of them"};
  const auto request = parse_schedule_request(words.schedule);
  if (!request.ok())
    return {request.status().code(),
            fmt::format("--schedule {}: {}", words.schedule, request.status().message())};
  if (drawn && !request->rank && request->ranks > kMostDrawn)
    return {Code::kInvalidArgument,
            fmt::format("--schedule {}: a drawing of more than {} ranks shows nothing; add :RANK",
                        words.schedule, kMostDrawn)};
  options.schedule = *request;
  return {};
}

}  // namespace

Result<ScheduleRequest> parse_schedule_request(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() < 3 || parts.size() > 4)
    return Status(Code::kInvalidArgument, fmt::format("this is not {}", kForm));
  ScheduleRequest request;
  const auto collectives = names_of_collectives();
  const auto collective = parse_collective(parts[0]);
  if (!collective.ok() || *collective >= Collective::kSend)
    return unknown_word("COLLECTIVE", parts[0], collectives);
  request.collective = *collective;
  const auto fitting = names_that_fit(request.collective);
  request.algorithm = find_algorithm(parts[1]);
  if (request.algorithm < 0) return unknown_word("ALGORITHM", parts[1], fitting);
  if (std::find(fitting.begin(), fitting.end(), parts[1]) == fitting.end())
    return Status(Code::kInvalidArgument, fmt::format("ALGORITHM {} does not fit {}; valid: {}",
                                                      parts[1], parts[0], join(fitting)));
  const auto ranks = parse_integer(parts[2], 1, kMostRanks);
  if (!ranks.ok())
    return Status(Code::kInvalidArgument, fmt::format("RANKS {}", ranks.status().message()));
  request.ranks = static_cast<int>(*ranks);
  if (parts.size() == 3) return request;
  const auto rank = parse_integer(parts[3], 0, *ranks - 1);
  if (!rank.ok())
    return Status(Code::kInvalidArgument, fmt::format("RANK {}", rank.status().message()));
  request.rank = static_cast<int>(*rank);
  return request;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  Words words;
  Options options;
  CLI::App app("Shows what this build of Banyan is, has and would do.", "banyan_info");
  app.add_flag("--env", options.environment, "all variables: value, source, meaning");
  app.add_option("--schedule", words.schedule, "the steps of a collective")
      ->type_name("COLLECTIVE:ALGORITHM:RANKS[:RANK]");
  app.add_flag("--json", words.json, "as JSON");
  app.add_flag("--dot", words.dot, "a schedule as a Graphviz graph");
  app.add_flag("--svg", words.svg, "a schedule as a picture");
  app.set_version_flag("--version", fmt::format("banyan_info {}", version_text()));
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
  if (app.count("--schedule") != 0 && words.schedule.empty())
    return refusal(fmt::format("--schedule '': this is not {}", kForm));
  if (const Status status = read_words(words, options); !status.ok())
    return refusal(status.message());
  return {.options = options, .status = 0, .text = {}};
}

}  // namespace banyan::info
