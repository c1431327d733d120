// Machines and clusters.
// SPDX-License-Identifier: Apache-2.0

#include "bench/info/show.h"
#include "topology/compose.h"
#include "topology/discovery/discover.h"
#include "topology/formats/export.h"
#include "topology/formats/import.h"
#include "topology/formats/json.h"
#include "topology/formats/print.h"
#include "topology/net_choice.h"

namespace banyan::info {

namespace {

Result<Topology> one_topology_of(const Options& options, const RawEnvironment& raw, Notes* notes) {
  if (!options.from.empty()) return import_topology_input(options.from, notes);
  if (const std::string* file = raw.find("BANYAN_TOPO_FILE"))
    return import_topology_file(*file, notes);
  const std::string* sysroot = raw.find("BANYAN_SYSROOT");
  return discover(sysroot == nullptr ? std::string() : *sysroot);
}

}  // namespace

Result<Topology> topology_of(const Options& options, const RawEnvironment& raw, Notes* notes) {
  auto found = one_topology_of(options, raw, notes);
  if (!found.ok() || options.nodes == 1) return found;
  return multiply(*found, options.nodes);
}

Topology used_of(const Topology& topology, const RawEnvironment& raw, Notes* notes) {
  // Between the processes of one node no network lies.
  if (vertices_of(topology, VertexKind::kNode).size() < 2) return topology;
  const std::string* list = raw.find("BANYAN_NET_DEVICES");
  Notes unread;
  Notes& found = notes == nullptr ? unread : *notes;
  Topology used = with_net_devices(topology, list == nullptr ? std::string() : *list, found);
  note_joining_switches(used, found);
  return used;
}

Result<std::string> show_topology(const Topology& topology, Form form) {
  switch (form) {
    case Form::kText: return to_text(topology);
    case Form::kJson: return to_json(topology);
    case Form::kDot: return to_dot(topology);
    case Form::kSvg: return to_svg(topology);
    case Form::kNccl: return to_nccl_xml(topology);
  }
  return std::string();
}

}  // namespace banyan::info
