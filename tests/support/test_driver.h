// Loads the CUDA driver that tests work with, as a program would that uses it: the one that
// STANDIN_CUDA names, or that of the machine. The library finds it among what is loaded.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <dlfcn.h>

#include <cstdlib>

namespace banyan::test {

// Null where there is none: dlerror() says why.
inline void* load_test_driver() {
  const char* path = std::getenv("STANDIN_CUDA");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return dlopen(path != nullptr ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
}

}  // namespace banyan::test
