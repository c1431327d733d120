// Puts the files that it is given through the harness, without a fuzzer, and says for each what it
// was read as, so that two runs can be compared.
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "src/base/file.h"
#include "topology/formats/import.h"
#include "topology/formats/json.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto text = banyan::read_file(argv[i], banyan::kMostFileBytes);
    if (!text.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], std::string(text.status().message()).c_str());
      return 1;
    }
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text->data()), text->size());
    const auto read = banyan::import_topology(*text);
    const std::string is =
        read.ok() ? banyan::to_json(*read) : std::string(read.status().message());
    std::printf("%s %s %zx\n", argv[i], read.ok() ? "read" : "refused",
                std::hash<std::string>{}(is));
  }
  return argc > 1 ? 0 : 1;
}
