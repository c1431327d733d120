// Checks that all instruction sets of this processor make the same bytes of the same values, by
// every codec and every kernel. It prints the best one and a checksum of these bytes, which is the
// same on every processor (same_bytes.sh).
//
// It needs neither GoogleTest nor another library, so that it is quickly compiled for a processor
// that is only emulated.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compression/codecs.h"
#include "compression/crc32c.h"
#include "compression/kernels.h"
#include "tests/support/codec_values.h"
#include "tests/support/kernels_reference.h"

namespace banyan {
namespace {

constexpr uint64_t kCounts[] = {1, 257, 4096, 12'291};

// Any bits, with those of NaN, infinity and subnormal numbers among them.
Memory random_bytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  Memory bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Memory values_of(DataType type, uint64_t count) {
  const Memory& values = mixed_values(DataType::kFloat32, count, count);
  if (type == DataType::kFloat32) return values;
  Memory narrow(count * size_of(type));
  scalar_kernels().encode[index_of(type)](narrow.data(), values.data(), count, 1);
  return narrow;
}

// What the kernels of a type make, of sums and of extremes, apart and in place.
std::vector<Memory> all_made_by(const Kernels& kernels, DataType type, size_t count) {
  const size_t t = index_of(type);
  const Memory a = random_bytes(count * size_of(type), 1), b = random_bytes(a.size(), 2);
  std::vector<Memory> made;
  for (const ReduceOp op : kOps) {
    made.push_back(reduce(kernels, type, op, a, b));
    const DataType wide = accumulator_of(type, op);
    Memory sum = random_bytes(count * size_of(wide), 3);
    kernels.decode_reduce[t][index_of(op)](sum.data(), sum.data(), b.data(), count);
    made.push_back(std::move(sum));
  }
  const DataType wide = accumulator_of(type, ReduceOp::kSum);
  for (const std::byte* scalar : {static_cast<const std::byte*>(nullptr), b.data()}) {
    Memory decoded(count * size_of(wide));
    kernels.decode[t](decoded.data(), a.data(), count, scalar);
    made.push_back(std::move(decoded));
  }
  const Memory sums = random_bytes(count * size_of(wide), 4);
  for (const int divisor : {1, 2, 3}) {
    Memory encoded(count * size_of(type));
    kernels.encode[t](encoded.data(), sums.data(), count, divisor);
    made.push_back(std::move(encoded));
  }
  return made;
}

// Adds to the checksum what `function(kernels)` makes, and says whether all make the same.
template <typename Function>
bool agree(uint32_t& checksum, std::string_view what, Function function) {
  const std::vector<Memory> wanted = function(scalar_kernels());
  for (const Memory& part : wanted) checksum = crc32c(part, checksum);
  for (const Kernels* kernels : available_kernels()) {
    if (function(*kernels) == wanted) continue;
    std::fprintf(stderr, "%s: by %s it is something else\n", std::string(what).c_str(),
                 std::string(kernels->name).c_str());
    return false;
  }
  return true;
}

bool all_agree(uint32_t& checksum) {
  bool same = true;
  for (const uint64_t count : kCounts) {
    for (const DataType type : kTypes)
      same &= agree(checksum, name_of(type),
                    [=](const Kernels& kernels) { return all_made_by(kernels, type, count); });
    for (const DataType type : kCodedTypes) {
      const Memory values = values_of(type, count);
      for (const CodecCase& each : codec_cases())
        same &= agree(checksum, each.name, [&](const Kernels& kernels) {
          return all_made_of(kernels.codecs[each.codec - size_t{1}], each.coding, type, values);
        });
    }
  }
  return same;
}

}  // namespace
}  // namespace banyan

int main() {
  uint32_t checksum = 0;
  if (!banyan::all_agree(checksum)) return 1;
  std::printf("%s %08x\n", std::string(banyan::best_kernels().name).c_str(), checksum);
}
