// Descriptions of machines that others write are recognised by what is in them.
//
//   own JSON                        {"schema": 1, ...}
//   hwloc's XML, version 1 and 2    <topology version="2.0">
//   NCCL's topology, RCCL's too     <system version="1">
//   NCCL's graph                    <graphs version="1">     GPUs and NICs, and no more
//   ibnetdiscover                   Switch 65 "S-..."
//   Slurm's topology.conf           SwitchName=... Nodes=...
//
// In UTF-8, with a byte order mark or without; names in other forms of text get question marks.
//
// Every reader returns a topology that has passed check(), or kInvalidArgument (kUnsupported where
// the build lacks a parser) with one line "line N: ..." that says what was expected.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "topology/formats/xml.h"
#include "topology/notes.h"
#include "topology/topology.h"

namespace banyan {

inline constexpr size_t kMostFileBytes = size_t{1} << 28;

// `notes`, where given, gets what was left out.
Result<Topology> import_topology(std::string_view text, Notes* notes = nullptr);
// Does the same for a file; the message and each note begin with its path. kSystem where it cannot
// be read.
Result<Topology> import_topology_file(const std::string& path, Notes* notes = nullptr);
// Does the same where a person has named the file: also a pipe, of which it waits for the end, or
// "-", the standard input.
Result<Topology> import_topology_input(const std::string& path, Notes* notes = nullptr);

// kInvalidArgument "line N: ...".
Status wrong_line(size_t line, std::string_view what);
// One for each format.
Result<Topology> read_nccl_system(const XmlElement& root, Notes& notes);
Result<Topology> read_nccl_graphs(const XmlElement& root);
Result<Topology> read_ibnetdiscover(std::string_view text, Notes& notes);
Result<Topology> read_slurm_topology(std::string_view text);

}  // namespace banyan
