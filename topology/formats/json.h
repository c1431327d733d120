// Banyan stores and exchanges machines in this form of JSON.
//
//   {"schema": 1, "name": "cluster",
//    "nodes": [{"name": "a", "cpus": {"set": "0-7", "cores": 4, "packages": [...], "caches":
//    [...]},
//               "numa": [...], "pci": [...], "nvswitches": [...], "gpus": [...], "nics": [...]}],
//    "switches": [...],
//    "links": [{"from": "a/gpu0", "to": "a/numa0", "kind": "pcie", "GBps": 31.5, "us": null,
//               "source": "hardware"}],
//    "levels": [{"name": "numa", "regular": true, "groups": [...]}]}
//
// docs/topology.md lists the members. `levels` is for readers; whoever reads the file derives them
// anew.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "topology/topology.h"

namespace banyan {

inline constexpr int kTopologySchema = 1;

// Writes a topology that has passed check(); one line for each vertex and edge. from_json() gives
// back canonical(topology).
std::string to_json(const Topology& topology);

// Reads a topology, which then has passed check(). It fails with kInvalidArgument "line N: ...",
// with what was expected. Members that the schema does not have are refused: they may be misspelt
// ones.
Result<Topology> from_json(std::string_view text);

}  // namespace banyan
