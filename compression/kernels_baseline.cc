// The scalar table: the specification of all the others, and what a machine without them uses.
// SPDX-License-Identifier: Apache-2.0

#include "compression/plain.inc"

namespace banyan {

constinit const Kernels scalar_table = make_kernels("scalar");

}  // namespace banyan
