// What is the matter with this host.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "bench/info/show.h"
#include "src/base/parse.h"
#include "topology/discovery/discover.h"

namespace banyan::info {

namespace {

std::string line_of(std::string_view name, const std::string& text) {
  return text.empty() ? std::string() : fmt::format("    {:<9}{}\n", name, printable(text));
}

std::string summary_of(const Diagnosis& diagnosis) {
  size_t count[3] = {};
  for (const Finding& finding : diagnosis.findings) ++count[static_cast<size_t>(finding.severity)];
  return fmt::format("{} error{}, {} warning{}, {} note{}\n", count[2], count[2] == 1 ? "" : "s",
                     count[1], count[1] == 1 ? "" : "s", count[0], count[0] == 1 ? "" : "s");
}

}  // namespace

Result<Diagnosis> diagnose_host(const RawEnvironment& raw,
                                const std::vector<TransportState>& transports) {
  const std::string* sysroot = raw.find("BANYAN_SYSROOT");
  const bool real = sysroot == nullptr || sysroot->empty() || *sysroot == "/";
  // Before there are threads.
  const ProcessFacts process = real ? facts_of_process() : ProcessFacts();
  const auto topology = discover(real ? std::string() : *sysroot);
  BANYAN_TRY(topology.status());
  const SysRoot root = real ? SysRoot() : SysRoot(*sysroot);
  Patient patient{.root = root, .topology = *topology, .raw = raw, .process = process};
  for (const TransportState& transport : transports)
    if (!transport.missing.empty()) patient.missing.push_back({transport.name, transport.missing});
  return diagnose(patient);
}

std::string show_diagnosis(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    text += fmt::format("{:<9}[{}] {}{}{}\n", name_of(finding.severity), finding.id,
                        printable(finding.subject), finding.subject.empty() ? "" : ": ",
                        printable(finding.seen));
    text += line_of("evidence", finding.evidence) + line_of("fix", finding.fix);
  }
  for (const GpuNic& pair : diagnosis.pairs) {
    text += fmt::format("GPUDirect {} - {} ({}): {}\n", printable(pair.gpu), printable(pair.nic),
                        name_of(pair.path), name_of(pair.verdict));
    text += line_of("why", pair.why) + line_of("fix", pair.fix);
  }
  return text + summary_of(diagnosis);
}

}  // namespace banyan::info
