// On processors for which there are no kernels of their own, the scalar ones are all there is.
// SPDX-License-Identifier: Apache-2.0

#include "compression/kernel_tables.h"

namespace banyan {

std::span<const Kernels* const> available_kernels() {
  static constexpr const Kernels* kTables[] = {&scalar_table};
  return kTables;
}

}  // namespace banyan
