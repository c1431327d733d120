// The command line of banyan_info.
// SPDX-License-Identifier: Apache-2.0

#include "bench/info/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "algorithms/algorithms.h"
#include "algorithms/choice/compression.h"
#include "algorithms/choice/select.h"
#include "bench/machine.h"
#include "src/base/parse.h"

namespace banyan::info {

namespace {

constexpr int kUsage = 2;
constexpr int kMostScheduledRanks = 1024;  // of --schedule
constexpr int kMostRanksPerNode = 1024;
constexpr int kMostDrawn = 16;    // ranks, in a picture
constexpr int kMostInGraph = 64;  // that Graphviz draws
constexpr int kMostNodes = 65536;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr std::string_view kForm =
    "COLLECTIVE:ALGORITHM:RANKS[:RANK], such as allreduce:ring:5, allreduce:ring:5:0 or, with "
    "hosts, allreduce:hierarchical:4x2, allreduce:leaders:1+2+3; ALGORITHM may have parameters, as "
    "in allreduce:hierarchical(seg=64,intra=ring):4x2";

constexpr std::string_view kCall =
    "COLLECTIVE:SIZE[:TYPE], such as allreduce:64M or allgather:1K:float16";

constexpr std::string_view kFooter =
    "Without --doctor, --env, --explain, --schedule and --topo: version, build, transports and "
    "this "
    "machine.\n"
    "--explain is about the cores of this host, a rank each, unless told otherwise.\n"
    "--from reads Banyan's JSON, XML of hwloc, NCCL and RCCL, ibnetdiscover's output, Slurm's\n"
    "topology.conf.\n"
    "\n"
    "Exit status: 0, 1 a failure or, of --doctor, a finding beyond a note, 2 a wrong command "
    "line.\n\n"
    "Examples:\n"
    "  banyan_info --env\n"
    "  banyan_info --schedule allreduce:ring:5:2\n"
    "  banyan_info --schedule broadcast:binomial:8 --svg > broadcast.svg\n"
    "  banyan_info --topo --from machine.xml --nodes 16 --json > cluster.json\n"
    "  banyan_info --topo --nccl > node.xml; NCCL_TOPO_FILE=node.xml ./train\n"
    "  banyan_info --explain allreduce:64M\n"
    "  banyan_info --explain allreduce:64M --compress auto\n"
    "  banyan_info --explain allgather:1K:float16 --from machine.xml --nodes 16 --ranks-per-node 8";

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

// The ranks of each host: "5" is one host, "4x2", "1+2+3".
Result<std::vector<int>> parse_hosts(std::string_view text) {
  const auto number = [](std::string_view word) {
    return parse_integer(word, 1, kMostScheduledRanks);
  };
  std::vector<int> hosts;
  const size_t times = text.find('x');
  if (times != std::string_view::npos && times != 0) {
    const auto count = number(text.substr(0, times));
    BANYAN_TRY(count.status());
    const auto ranks = number(text.substr(times + 1));
    BANYAN_TRY(ranks.status());
    hosts.assign(static_cast<size_t>(*count), static_cast<int>(*ranks));
  } else {
    for (const std::string_view word : split(text, '+')) {
      const auto ranks = number(word);
      BANYAN_TRY(ranks.status());
      hosts.push_back(static_cast<int>(*ranks));
    }
  }
  int64_t all = 0;
  for (const int ranks : hosts) all += ranks;
  if (all <= kMostScheduledRanks) return hosts;
  return Status(Code::kInvalidArgument,
                fmt::format("{}: {} ranks; valid: 1 to {}", text, all, kMostScheduledRanks));
}

Hierarchy hierarchy_of(const std::vector<int>& hosts) {
  std::vector<int> labels;
  for (size_t host = 0; host < hosts.size(); ++host)
    labels.insert(labels.end(), static_cast<size_t>(hosts[host]), static_cast<int>(host));
  return Hierarchy::of_labels("host", labels).simplified();
}

CommandLine refusal(std::string_view text) {
  return {.options = std::nullopt,
          .status = kUsage,
          .text = fmt::format("banyan_info: {}\nbanyan_info --help shows all options\n", text)};
}

struct Words {
  std::string schedule;
  std::string explain;
  std::string nodes;
  std::string ranks_per_node;
  std::string compress;
  bool json = false;
  bool dot = false;
  bool svg = false;
  bool nccl = false;
};

Status read_form(const Words& words, Options& options) {
  const std::vector<bool> forms = {words.json, words.dot, words.svg, words.nccl};
  if (std::count(forms.begin(), forms.end(), true) > 1)
    return {Code::kInvalidArgument, "--json, --dot, --svg and --nccl: give one of them"};
  options.form = words.json   ? Form::kJson
                 : words.dot  ? Form::kDot
                 : words.svg  ? Form::kSvg
                 : words.nccl ? Form::kNccl
                              : Form::kText;
  if (words.nccl && !options.topology)
    return {Code::kInvalidArgument, "--nccl writes a machine: give --topo too"};
  return {};
}

Status read_machine(const Words& words, Options& options) {
  const bool explains = !words.explain.empty();
  if (!options.topology && !explains && (!options.from.empty() || !words.nodes.empty()))
    return {Code::kInvalidArgument, fmt::format("{} is about a machine: give --topo or --explain "
                                                "too",
                                                options.from.empty() ? "--nodes" : "--from")};
  if (!explains && !words.ranks_per_node.empty())
    return {Code::kInvalidArgument, "--ranks-per-node is for --explain: give it too"};
  if (!explains && !words.compress.empty())
    return {Code::kInvalidArgument, "--compress is for --explain: give it too"};
  const auto read = [](std::string_view option, const std::string& word, int most, int* value) {
    if (word.empty()) return Status();
    const auto number = parse_integer(word, 1, most);
    if (number.ok()) *value = static_cast<int>(*number);
    return number.ok() ? Status()
                       : Status(Code::kInvalidArgument,
                                fmt::format("{}: {}", option, number.status().message()));
  };
  BANYAN_TRY(read("--nodes", words.nodes, kMostNodes, &options.nodes));
  return read("--ranks-per-node", words.ranks_per_node, kMostRanksPerNode, &options.ranks_per_node);
}

Status read_words(const Words& words, Options& options) {
  BANYAN_TRY(read_form(words, options));
  const bool drawn = words.dot || words.svg;
  const int asked = static_cast<int>(options.doctor) + static_cast<int>(options.environment) +
                    static_cast<int>(options.topology) + static_cast<int>(!words.schedule.empty()) +
                    static_cast<int>(!words.explain.empty());
  if (asked > 1)
    return {Code::kInvalidArgument,
            "--doctor, --env, --explain, --schedule and --topo: give one of them"};
  BANYAN_TRY(read_machine(words, options));
  if (!words.explain.empty()) {
    if (drawn) return {Code::kInvalidArgument, "--explain: text or --json; it draws nothing"};
    const auto request = parse_explain_request(words.explain);
    if (!request.ok())
      return {request.status().code(),
              fmt::format("--explain {}: {}", words.explain, request.status().message())};
    options.explain = *request;
    if (words.compress.empty()) return {};
    const auto compression = parse_compression(words.compress);
    if (!compression.ok())
      return {compression.status().code(),
              fmt::format("--compress: {}", compression.status().message())};
    options.compression = *compression;
    return {};
  }
  if (words.schedule.empty()) {
    if (!drawn || options.topology) return {};
    return {Code::kInvalidArgument, fmt::format("{} draws a schedule or a machine: give --schedule "
                                                "or --topo too",
                                                words.dot ? "--dot" : "--svg")};
  }
  const auto request = parse_schedule_request(words.schedule);
  if (!request.ok())
    return {request.status().code(),
            fmt::format("--schedule {}: {}", words.schedule, request.status().message())};
  const int most = words.svg ? kMostDrawn : kMostInGraph;
  if (drawn && !request->rank && request->ranks > most)
    return {Code::kInvalidArgument,
            fmt::format("--schedule {}: {} of {} ranks shows nothing; right are at most {}: add "
                        ":RANK",
                        words.schedule, words.svg ? "a picture" : "a graph", request->ranks, most)};
  options.schedule = *request;
  return {};
}

// "ring(seg=1M)", by the grammar of rules; those that count for these ranks.
Result<Parameters> parameters_of(const ScheduleRequest& request, std::string_view collective,
                                 std::string_view choice) {
  const auto rules = parse_rules(fmt::format("{}:{}", collective, choice));
  BANYAN_TRY(rules.status());
  if (rules->size() != 1 || rules->front().algorithms.size() != 1)
    return Status(Code::kInvalidArgument, fmt::format("ALGORITHM {} is not one", choice));
  const Parameters& given = rules->front().parameters.front();
  if (!fit_ranks(given, request.ranks))
    return Status(Code::kInvalidArgument,
                  fmt::format("ALGORITHM {} is not of {} ranks; valid: dimensions whose product is "
                              "that",
                              choice, request.ranks));
  return effective(given, request.algorithm, request.collective, &request.hierarchy);
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
  const std::string_view name = parts[1].substr(0, parts[1].find('('));
  request.algorithm = find_algorithm(name);
  if (request.algorithm < 0) return unknown_word("ALGORITHM", name, fitting);
  if (!fits(request.algorithm, request.collective))
    return Status(Code::kInvalidArgument, fmt::format("ALGORITHM {} does not fit {}; valid: {}",
                                                      name, parts[0], join(fitting)));
  const auto hosts = parse_hosts(parts[2]);
  if (!hosts.ok())
    return Status(Code::kInvalidArgument, fmt::format("RANKS {}", hosts.status().message()));
  request.ranks = std::accumulate(hosts->begin(), hosts->end(), 0);
  request.hierarchy = hierarchy_of(*hosts);
  if (name != parts[1]) {
    const auto parameters = parameters_of(request, parts[0], parts[1]);
    BANYAN_TRY(parameters.status());
    request.parameters = *parameters;
  }
  if (parts.size() == 3) return request;
  const auto rank = parse_integer(parts[3], 0, request.ranks - 1);
  if (!rank.ok())
    return Status(Code::kInvalidArgument, fmt::format("RANK {}", rank.status().message()));
  request.rank = static_cast<int>(*rank);
  return request;
}

Result<ExplainRequest> parse_explain_request(const std::string& text) {
  const auto parts = split(text, ':');
  ExplainRequest request{.text = text};
  const auto collectives = names_of_collectives();
  const auto collective = parse_collective(parts[0]);
  if (!collective.ok() || *collective >= Collective::kSend)
    return unknown_word("COLLECTIVE", parts[0], collectives);
  request.collective = *collective;
  if (request.collective == Collective::kBarrier && parts.size() == 1) return request;
  if (parts.size() < 2 || parts.size() > 3)
    return Status(Code::kInvalidArgument, fmt::format("this is not {}", kCall));
  const auto bytes = parse_size(parts[1]);
  if (!bytes.ok())
    return Status(Code::kInvalidArgument, fmt::format("SIZE: {}", bytes.status().message()));
  if (*bytes > kMostBytes)
    return Status(Code::kInvalidArgument,
                  fmt::format("SIZE {} is more than {}", parts[1], format_size(kMostBytes)));
  if (parts.size() == 3) {
    const auto type = parse_data_type(parts[2]);
    if (!type.ok())
      return Status(Code::kInvalidArgument, fmt::format("TYPE: {}", type.status().message()));
    request.type = *type;
  }
  const uint64_t element = size_of(request.type);
  request.bytes = std::max(*bytes / element, uint64_t{1}) * element;
  return request;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  Words words;
  Options options;
  CLI::App app("Shows what this build of Banyan is, has and would do.", "banyan_info");
  app.add_flag("--env", options.environment, "all variables: value, source, meaning");
  app.add_flag("--doctor", options.doctor,
               "what is the matter with this host, the evidence, and what to do");
  app.add_option("--schedule", words.schedule, "the steps of a collective")
      ->type_name("COLLECTIVE:ALGORITHM:RANKS[:RANK]");
  app.add_flag("--topo", options.topology,
               "this machine: devices, links, where each figure is from");
  app.add_option("--from", options.from,
                 "another machine or cluster, of any format that is known; -: from stdin")
      ->type_name("FILE");
  app.add_option("--nodes", words.nodes, "that many of the machine")->type_name("N");
  app.add_option("--explain", words.explain,
                 "every algorithm for a call: what it would take, and why it is not chosen")
      ->type_name("COLLECTIVE:SIZE[:TYPE]");
  app.add_option("--ranks-per-node", words.ranks_per_node,
                 "ranks of each node; else one for each GPU, or core")
      ->type_name("N");
  app.add_option("--compress", words.compress,
                 "explain every codec, too, for calls that may go by C, as BANYAN_COMPRESS has it")
      ->type_name("C");
  app.add_flag("--json", words.json, "as JSON");
  app.add_flag("--dot", words.dot, "a schedule or machine as a Graphviz graph");
  app.add_flag("--svg", words.svg, "a schedule or machine as a picture");
  app.add_flag("--nccl", words.nccl, "a machine as NCCL_TOPO_FILE takes it");
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
  if (app.count("--explain") != 0 && words.explain.empty())
    return refusal(fmt::format("--explain '': this is not {}", kCall));
  if (app.count("--ranks-per-node") != 0 && words.ranks_per_node.empty())
    return refusal(fmt::format("--ranks-per-node '': this is not a whole number from 1 to {}",
                               kMostRanksPerNode));
  if (app.count("--compress") != 0 && words.compress.empty())
    return refusal("--compress '': this is no compression");
  if (app.count("--from") != 0 && options.from.empty())
    return refusal("--from '': this is not the name of a file");
  if (app.count("--nodes") != 0 && words.nodes.empty())
    return refusal(fmt::format("--nodes '': this is not a whole number from 1 to {}", kMostNodes));
  if (const Status status = read_words(words, options); !status.ok())
    return refusal(status.message());
  return {.options = options, .status = 0, .text = {}};
}

}  // namespace banyan::info
