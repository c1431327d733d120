// Puts the files that it is given through a harness, without a fuzzer.
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "src/base/file.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  for (int i = 1; i < argc; ++i) {
    const auto input = banyan::read_file(argv[i], kMostBytes);
    if (!input.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], std::string(input.status().message()).c_str());
      return 1;
    }
    std::printf("%s\n", argv[i]);
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input->data()), input->size());
  }
  return argc > 1 ? 0 : 1;
}
