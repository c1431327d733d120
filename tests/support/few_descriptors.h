// A limit of open files, for tests.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/descriptor.h"

namespace banyan::test {

// While it lives, this process can open only so many descriptors more. What comes afterwards, the
// leak checker for instance, has all of them again.
class FewDescriptors {
 public:
  // Not even in the place of one that is closed meanwhile.
  static constexpr int kNone = -(1 << 20);

  explicit FewDescriptors(int spare) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = Descriptor(dup(0)).get();
    const int limit = std::max(next + spare, STDERR_FILENO + 1);
    const rlimit few{static_cast<rlim_t>(limit), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace banyan::test
