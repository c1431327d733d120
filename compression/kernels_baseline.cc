// The scalar table: the specification of all the others, and what a machine without them uses.
// SPDX-License-Identifier: Apache-2.0

#include "compression/codecs/blocks_plain.inc"
#include "compression/codecs/picks_plain.inc"
#include "compression/float_formats.h"
#include "compression/kernel_tables.h"
#include "compression/loops.h"

namespace banyan {
namespace {

template <class Format>
struct Narrow {
  using Storage = typename Format::Storage;

  template <class Operator>
  static void reduce(void* dst, const void* local, const void* incoming, size_t count) {
    combine_each<Storage, Storage>(dst, local, incoming, count, [](Storage a, Storage b) {
      return narrow<Format>(Operator::apply(widen<Format>(a), widen<Format>(b)));
    });
  }

  template <class Operator>
  static void decode_reduce(void* dst, const void* local, const void* incoming, size_t count) {
    combine_each<float, Storage>(dst, local, incoming, count, [](float a, Storage b) {
      return canonical(Operator::apply(a, widen<Format>(b)));
    });
  }

  static void decode(void* dst, const void* src, size_t count, const void* scalar) {
    const auto* element = static_cast<const std::byte*>(scalar);
    const float factor = element == nullptr ? 1 : widen<Format>(load<Storage>(element));
    map_each<float, Storage>(dst, src, count, [factor](Storage value) {
      return canonical(widen<Format>(value) * factor);
    });
  }

  static void encode(void* dst, const void* src, size_t count, int divisor) {
    map_each<Storage, float>(dst, src, count, [divisor = static_cast<float>(divisor)](float value) {
      return narrow<Format>(value / divisor);
    });
  }
};

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels scalar_table = make_kernels("scalar");

}  // namespace banyan
