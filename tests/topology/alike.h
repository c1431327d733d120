// What topologies that were written and read again have in common with what they were.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "topology/topology.h"

namespace banyan::test {

using Write = std::function<Result<std::string>(const Topology&)>;

// The vertex of that full name; where there is none the test fails.
Vertex& vertex_at(Topology& topology, const std::string& name);

// Gives a machine of machines.h with the bandwidths of PCI not rounded, and with GPUs whose NVLinks
// are as wide as those there; and all of boxes().
Topology exact(const Box& box);
std::vector<Topology> exact_machines();

constexpr const char* kHostile = "a\"b'<c> &amp; ]]> \xc3\xa9";
// A machine whose NIC has that name, and whose other texts are worse.
Topology with_hostile_names();

// Expects the same devices on PCI, in the same switches, with the same classes of paths between all
// of them, and the same bandwidths where `before` knows them.
void expect_same_devices(const Topology& again, const Topology& before);
void expect_same_numas(const Topology& again, const Topology& before);

// Where `before` is known.
void expect_near(const Figure& again, const Figure& before);

// A build without the parser cannot read what it has written.
bool unsupported(const Result<Topology>& read);

// One line that has `named`.
void expect_refused(const Write& write, const Topology& topology, const char* named);
// What no format of one node has a form for.
void expect_refusals(const Write& write);

// Goes through those of the folder BANYAN_TEST_TOPOLOGIES that are described in XML, by the names
// of their files; skips the test where it is not set.
void for_each_real_machine(
    const std::function<void(const std::string& name, const Topology& machine)>& visit);

}  // namespace banyan::test
