// What a description has and a topology does not: it is read, and a line says what was left out.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "topology/import.h"
#include "topology/paths.h"

namespace banyan {
namespace {

// A build without an XML parser reads all formats but those.
bool unsupported(const Result<Topology>& read) {
  return !read.ok() && read.status().code() == Code::kUnsupported;
}

int gpu(const Topology& topology, size_t number) {
  return vertices_of(topology, VertexKind::kGpu)[number];
}

// As in a virtual machine, or a container, that has some of a host's GPUs.
TEST(ImportNotes, wires_to_gpus_that_the_file_lacks_are_left_out_with_a_line) {
  struct Wires {
    const char* kind;
    int others;  // that the file lacks
    const char* note;
  };
  for (const Wires& wires : {
           Wires{"nvlink", 0, ""},
           Wires{"nvlink", 1,
                 "line 4: a wire is left out to devices that the file does not have: 0000:41:00.0"},
           Wires{"xgmi", 10,
                 "line 4: 10 wires are left out to devices that the file does not have: "
                 "0000:41:00.0, 0000:42:00.0, 0000:43:00.0, 0000:44:00.0, 0000:45:00.0, "
                 "0000:46:00.0, 0000:47:00.0, 0000:48:00.0, ..."},
       }) {
    std::string text =
        "<system version=\"2\"><cpu numaid=\"0\" affinity=\"f\">\n"
        "<pci busid=\"21:00.0\" class=\"0x030200\"><gpu dev=\"0\" gcn=\"gfx942\" sm=\"90\">\n";
    text += fmt::format("<{} target=\"0000:22:00.0\" count=\"1\"/>\n", wires.kind);
    for (int other = 1; other <= wires.others; ++other)
      text += fmt::format("<{} target=\"4{:x}:00.0\" count=\"1\" tclass=\"0x030200\"/>\n",
                          wires.kind, other);
    text +=
        "</gpu></pci>\n<pci busid=\"22:00.0\" class=\"0x030200\"><gpu dev=\"1\"/></pci>\n"
        "</cpu></system>";
    Notes notes;
    const auto read = import_topology(text, &notes);
    if (unsupported(read)) GTEST_SKIP() << read.status().message();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(Paths(*read).between(gpu(*read, 0), gpu(*read, 1)).type, PathClass::kNvl);
    EXPECT_EQ(vertices_of(*read, VertexKind::kGpu).size(), 2U);
    EXPECT_EQ(notes.lines(), wires.others == 0 ? std::vector<std::string>()
                                               : std::vector<std::string>{wires.note});
  }
}

}  // namespace
}  // namespace banyan
