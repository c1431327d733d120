// SPDX-License-Identifier: Apache-2.0

#include "bench/info/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/communicator/settings.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

namespace {

std::string model_of(const Topology& topology) {
  for (const Vertex& vertex : topology.vertices)
    if (vertex.kind == VertexKind::kPackage && !vertex.model.empty()) return vertex.model;
  return {};
}

// A file that was measured on other processors still applies where its rules match.
void examine_tuning(const Patient& patient, std::vector<Finding>& findings) {
  const std::string* path = patient.raw.find("BANYAN_TUNE_FILE");
  if (path == nullptr || path->empty()) return;
  const auto file = read_tuning_file(*path);
  if (!file.ok()) return;  // wrong_values() says it
  const std::string here = model_of(patient.topology);
  const std::string& there = file->tuned_on.cpu;
  if (here.empty() || there.empty() || here == there) return;
  findings.push_back({.id = "variables.tuned",
                      .severity = Severity::kWarning,
                      .subject = "BANYAN_TUNE_FILE",
                      .seen = "the file was measured on other processors",
                      .evidence = fmt::format("{}: {}; here: {}", *path, there, here),
                      .fix = "run banyan_tune here"});
}

// Without the variables whose values are compared with this host, where another one is looked at.
RawEnvironment of_any_host(const Patient& patient) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& entry : patient.raw.entries())
    if (patient.root.real() ||
        (entry.first != "BANYAN_NET_DEVICES" && entry.first != "BANYAN_SOCKET_IFNAME"))
      entries.push_back(entry);
  return RawEnvironment(std::move(entries));
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "";
}

std::string_view name_of(GpuDirect verdict) {
  switch (verdict) {
    case GpuDirect::kPossible: return "possible but off";
    case GpuDirect::kImpossible: return "impossible";
    case GpuDirect::kUnknown: return "unknown";
  }
  return "";
}

bool Diagnosis::healthy() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.severity != Severity::kNote; });
}

void examine_variables(const Patient& patient, std::vector<Finding>& findings) {
  for (const std::string& text : unknown_variables(patient.raw))
    findings.push_back({.id = "variables.unknown",
                        .severity = Severity::kWarning,
                        .subject = text.substr(0, text.find(' ')),
                        .seen = text,
                        .evidence = "the environment",
                        .fix = "banyan_info --env lists all"});
  for (const Status& status : wrong_values(of_any_host(patient)))
    findings.push_back({.id = "variables.value",
                        .severity = Severity::kError,
                        .seen = std::string(status.message()),
                        .evidence = "the environment",
                        .fix = "give a value that is valid, or unset it"});
  examine_tuning(patient, findings);
}

void examine_transports(const Patient& patient, std::vector<Finding>& findings) {
  std::vector<Patient::Missing> missing = patient.missing;
  const bool built = std::none_of(missing.begin(), missing.end(),
                                  [](const auto& each) { return each.transport == "ucx"; });
  if (built && !patient.process.no_ucx.empty()) missing.push_back({"ucx", patient.process.no_ucx});
  for (const auto& [transport, why] : missing)
    findings.push_back({.id = "transports.missing",
                        .severity = Severity::kWarning,
                        .subject = transport,
                        .seen = transport == "ucx" ? "ranks of other hosts cannot be reached"
                                                   : "this transport cannot be used",
                        .evidence = why,
                        .fix = transport != "ucx" ? ""
                               : built            ? "install UCX (libucx0)"
                                                  : "install UCX (libucx-dev) and build again"});
}

Diagnosis diagnose(const Patient& patient) {
  Diagnosis diagnosis;
  for (const auto examine : {examine_variables, examine_transports, examine_processors,
                             examine_memory, examine_network, examine_rdma, examine_cuda})
    examine(patient, diagnosis.findings);
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  diagnosis.pairs = examine_gpus(patient);
  return diagnosis;
}

}  // namespace banyan
