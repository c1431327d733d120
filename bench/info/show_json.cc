// JSON forms.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "algorithms/choice/show_explanation.h"
#include "bench/info/show.h"
#include "compression/kernels.h"

namespace banyan::info {

namespace {

using Json = nlohmann::ordered_json;

// Names of hosts and values of variables may be anything; what is no UTF-8 is replaced.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string_view name_of_space(Space space) {
  switch (space) {
    case Space::kInput: return "input";
    case Space::kOutput: return "output";
    case Space::kScratch: return "scratch";
    case Space::kLeft: return "left";
    case Space::kWindow: return "window";
  }
  return "";
}

Json slice_json(const Slice& slice) {
  return {{"space", name_of_space(slice.space)}, {"offset", slice.offset}, {"size", slice.size}};
}

Json figure_json(const ShownFigure& shown) {
  const Figure& figure = shown.figure;
  Json json = {{"value", figure.known() ? Json(*figure.value) : Json(nullptr)}};
  if (shown.most) json["most"] = *shown.most;
  json["source"] = name_of(figure.source);
  json["doubtful"] = figure.doubtful;
  return json;
}

// Those of each level of switches are an object in a list.
Json figures_json(const std::vector<ShownFigure>& figures) {
  Json json = Json::object();
  Json tiers = Json::array();
  for (const ShownFigure& each : figures) {
    if (each.level.empty()) {
      json[each.key] = figure_json(each);
      continue;
    }
    if (tiers.empty() || tiers.back()["name"] != each.level)
      tiers.push_back({{"name", each.level}});
    tiers.back()[each.key] = figure_json(each);
  }
  json["tiers"] = std::move(tiers);
  return json;
}

bool reads_twice(Op op) {
  return op == Op::kReduce || op == Op::kDecodeAdd;
}

Json step_json(const Schedule& schedule, const std::vector<std::vector<uint32_t>>& predecessors,
               uint32_t index) {
  const Step& step = schedule.steps[index];
  Json json = {{"step", index}, {"op", name_of(step.op)}};
  if (step.peer >= 0) json["peer"] = step.peer;
  const bool receives = step.op == Op::kRecv;
  if (!receives) json["src"] = slice_json(step.src);
  if (reads_twice(step.op)) json["src2"] = slice_json(step.src2);
  if (step.op != Op::kSend) json["dst"] = slice_json(step.dst);
  json["after"] = predecessors[index];
  return json;
}

}  // namespace

std::string show_build_json(const Build& build, const std::vector<TransportState>& transports,
                            const Machine& machine) {
  Json json;
  json["program"] = "banyan_info";
  json["version"] = build.version;
  json["build"] = {{"compiler", build.compiler},
                   {"features", build.features},
                   {"arithmetic", best_kernels().name}};
  json["transports"] = Json::array();
  for (const TransportState& transport : transports)
    json["transports"].push_back({{"name", transport.name},
                                  {"available", transport.missing.empty()},
                                  {"missing", transport.missing}});
  json["algorithms"] = Json::array();
  for (const Algorithm& algorithm : algorithms())
    json["algorithms"].push_back({{"name", algorithm.name}, {"text", algorithm.text}});
  json["machine"] = {{"host", machine.host},
                     {"cpu", machine.cpu},
                     {"cores", machine.cores},
                     {"memory_bytes", machine.memory_bytes},
                     {"available_bytes", machine.available_bytes},
                     {"kernel", machine.kernel}};
  return dump(json);
}

std::string show_environment_json(const RawEnvironment& raw) {
  Json rows = Json::array();
  for (const Variable& variable : variables()) {
    const auto [value, source] = shown_variable(variable, raw);
    rows.push_back({{"name", variable.name},
                    {"default", variable.default_value},
                    {"value", value},
                    {"source", source},
                    {"text", variable.text}});
  }
  return dump({{"variables", rows}});
}

std::string show_explanation_json(const Explained& explained) {
  const auto name = [](int algorithm) { return algorithms()[static_cast<size_t>(algorithm)].name; };
  const Explanation& explanation = explained.explanation;
  Json candidates = Json::array();
  for (const ExplainedAlgorithm& each : explanation.algorithms) {
    Json row = {{"algorithm", name(each.algorithm)}};
    row["predicted_us"] = each.predicted_us > 0 ? Json(each.predicted_us) : Json(nullptr);
    row["measured_us"] = each.measured_us ? Json(*each.measured_us) : Json(nullptr);
    row["excluded"] = each.excluded;
    row["why"] = each.why;
    row["rounds"] = each.size ? Json(each.size->rounds) : Json(nullptr);
    row["steps"] = each.size ? Json(each.size->steps) : Json(nullptr);
    row["bytes_sent"] = each.size ? Json(each.size->bytes_sent) : Json(nullptr);
    candidates.push_back(std::move(row));
  }
  Json codecs = Json::array();
  for (const ExplainedCodec& each : explanation.codecs)
    codecs.push_back(
        {{"codec", each.name},
         {"predicted_us", each.predicted_us > 0 ? Json(each.predicted_us) : Json(nullptr)},
         {"bytes_sent", each.bytes_sent ? Json(*each.bytes_sent) : Json(nullptr)},
         {"error", each.law},
         {"chosen", each.chosen},
         {"why", each.why}});
  return dump({{"call", explained.request.text},
               {"ranks", explained.call.ranks},
               {"machine", figures_json(explained.figures)},
               {"note", explained.note},
               {"memory_by", explanation.memory_by},
               {"network_by", explanation.network_by},
               {"bound_us", explanation.bound.us},
               {"bound_by", text_of(explanation.bound)},
               {"chosen", name(explanation.chosen)},
               {"percent_of_bound", explanation.percent_of_bound},
               {"fastest_by_model", text_of(explanation.fastest, explanation.fastest_parameters)},
               {"fastest_us", explanation.fastest_us},
               {"candidates", candidates},
               {"codecs", codecs}});
}

std::string schedule_json_begin(const ScheduleRequest& request) {
  const Problem problem = problem_of(request);
  Json json = {
      {"collective", name_of(request.collective)},
      {"algorithm", text_of(request.algorithm, request.parameters)},
      {"ranks", request.ranks},
      {"hierarchy", request.hierarchy.text()},
      {"datatype", name_of(problem.type)},
  };
  if (reduces(problem.collective)) json["op"] = name_of(problem.op);
  json["count"] = problem.count;
  std::string text = json.dump();
  text.pop_back();  // the brace, which schedule_json_end() brings
  return text + ",\"schedules\":[\n";
}

std::string schedule_json(const Schedule& schedule, int rank) {
  std::vector<std::vector<uint32_t>> predecessors(schedule.steps.size());
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    for (const uint32_t later : schedule.successors_of(step)) predecessors[later].push_back(step);
  }
  Json json = {{"rank", rank},
               {"scratch_bytes", schedule.scratch_size},
               {"bytes_sent", schedule.bytes_sent()}};
  json["steps"] = Json::array();
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    json["steps"].push_back(step_json(schedule, predecessors, step));
  return json.dump();
}

std::string schedule_json_end() {
  return "\n]}\n";
}

std::string show_diagnosis_json(const Diagnosis& diagnosis) {
  Json json;
  json["healthy"] = diagnosis.healthy();
  json["findings"] = Json::array();
  for (const Finding& finding : diagnosis.findings)
    json["findings"].push_back({{"id", finding.id},
                                {"severity", name_of(finding.severity)},
                                {"subject", finding.subject},
                                {"seen", finding.seen},
                                {"evidence", finding.evidence},
                                {"fix", finding.fix}});
  json["gpudirect"] = Json::array();
  for (const GpuNic& pair : diagnosis.pairs)
    json["gpudirect"].push_back({{"gpu", pair.gpu},
                                 {"nic", pair.nic},
                                 {"path", name_of(pair.path)},
                                 {"verdict", name_of(pair.verdict)},
                                 {"why", pair.why},
                                 {"fix", pair.fix}});
  return dump(json);
}

}  // namespace banyan::info
