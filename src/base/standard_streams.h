// The standard streams that the program has closed stay out of use while the library works.
//
// Descriptors of ours keep off their numbers (src/base/descriptor.h). Those of libraries that we
// call (UCX, hwloc, libpmix, the resolver) would get them, and the program's next line for stderr
// would go to a peer.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

namespace banyan {

// As long as anybody has it, each of 0, 1 and 2 that was closed is taken by what can neither be
// read nor written (EBADF, as before) and is not there after exec; then it is closed again. What
// the program puts there itself is left alone. One object of the process.
std::shared_ptr<void> hold_closed_streams();

}  // namespace banyan
