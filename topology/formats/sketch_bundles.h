// Edges beside the tree of a node, kind by kind: a mesh in a sentence, what is irregular as a
// table.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "topology/formats/sketch.h"

namespace banyan {

// "PCIe x16 32 GT/s"; where a file was written while the edge idled, "PCIe as it ran".
std::string kind_text(const Edge& edge);
void add_bundles(const Topology& topology, int node, NodeSketch& sketch);

}  // namespace banyan
