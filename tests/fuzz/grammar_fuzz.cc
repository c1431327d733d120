// Whatever text the name of a codec is: it is refused in one short line that says where, or it is a
// choice that comes back from its text as it was. For libFuzzer (tests/fuzz/run) and for
// replay_files.cc.
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "compression/grammar.h"

namespace banyan {
namespace {

void require(bool holds, const char* what, std::string_view message) {
  if (holds) return;
  std::fprintf(stderr, "grammar_fuzz: %s: %.*s\n", what, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

void read_one(std::string_view name) {
  const Result<CodecChoice> read = parse_codec(name);
  if (!read.ok()) {
    constexpr size_t kMost = 500;
    const std::string_view message = read.status().message();
    require(message.find(" at character ") != std::string_view::npos, "says not where", message);
    require(message.find("; valid: ") != std::string_view::npos, "says not what is valid", message);
    require(message.size() < kMost, "is long", message);
    for (const char c : message)
      require(static_cast<unsigned char>(c) >= ' ' && c != 0x7f, "drives a terminal", message);
    return;
  }
  require(is_choice(*read), "is no choice", name);
  const std::string text = text_of(*read);
  const Result<CodecChoice> again = parse_codec(text);
  require(again.ok() && *again == *read, "comes back as another", text);
  require(text_of(*again) == text, "has two texts", text);
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
