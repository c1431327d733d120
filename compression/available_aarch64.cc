// Every 64-bit ARM processor has NEON.
// SPDX-License-Identifier: Apache-2.0

#include "compression/kernel_tables.h"

namespace banyan {

std::span<const Kernels* const> available_kernels() {
  static constexpr const Kernels* kTables[] = {&scalar_table, &neon_table};
  return kTables;
}

}  // namespace banyan
