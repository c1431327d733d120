// The main function of tests that need a GPU. Without one a program says why in one line and exits
// with 77, which the build system shows as a skip.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/gpu/cuda.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const std::string why = banyan::test::why_no_gpu(); !why.empty()) {
    std::printf("skipped: no GPU: %s\n", why.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
