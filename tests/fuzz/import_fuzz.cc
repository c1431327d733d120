// Whatever bytes a description is: it is refused in one line, or it is a topology that keeps all
// rules, comes back from JSON as it was, and has levels. For libFuzzer (tests/fuzz/run), and for
// replay.cc.
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/formats/import.h"
#include "topology/formats/json.h"
#include "topology/levels.h"
#include "topology/net_choice.h"

namespace banyan {
namespace {

void require(bool holds, const char* what, std::string_view message) {
  if (holds) return;
  std::fprintf(stderr, "import_fuzz: %s: %.*s\n", what, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

bool is_line(std::string_view text) {
  return text.find_first_of("\r\n") == std::string_view::npos && !text.empty();
}

void read_one(std::string_view text) {
  Notes notes;
  const auto read = import_topology(text, &notes);
  for (const std::string& note : notes.lines()) require(is_line(note), "not one line", note);
  if (!read.ok()) {
    const std::string_view message = read.status().message();
    require(message.starts_with("line ") && is_line(message), "not one line", message);
    return;
  }
  require(check(*read).ok(), "breaks a rule", check(*read).message());
  // A line of Slurm's may be a million nodes, which are read, but not within a moment shown.
  constexpr size_t kMostShown = 10000;
  if (read->vertices.size() > kMostShown) return;
  const auto again = from_json(to_json(*read));
  require(again.ok(), "does not come back", again.ok() ? "" : again.status().message());
  require(*again == *read, "comes back as another", "");
  Notes on_levels;
  const Topology used = with_net_devices(*read, "^mlx5_1", on_levels);
  require(check(used).ok(), "breaks a rule without some NICs", check(used).message());
  note_joining_switches(used, on_levels);
  for (const std::string& note : on_levels.lines()) require(is_line(note), "not one line", note);
  for (const Level& level : levels(*read)) require(!level.groups.empty(), "has an empty level", "");
}

}  // namespace
}  // namespace banyan

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  banyan::read_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
// NOLINTEND(readability-identifier-naming)
