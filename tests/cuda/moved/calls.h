// The calls of the C interface, with every buffer moved to a GPU: for programs that know nothing of
// GPUs, so that all that is said of calls is tried there, too.
//
// MOVED(banyan_allreduce) is what such a program calls, and REAL(banyan_allreduce) is the
// library's. A program that is linked with --wrap=banyan_allreduce has both. In a library to be
// loaded before the program (PRELOADED) the first has the name itself, and the second is the next.
//
// What a call would not be able to take is passed on as it is: null pointers, buffers of unknown
// length, calls that name no communicator.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "banyan/banyan.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names for what it wraps
// NOLINTBEGIN(bugprone-macro-parentheses): names are no expressions
#ifdef PRELOADED
#include <dlfcn.h>
#define MOVED(function) BANYAN_API banyan_result_t function
#define REAL(function) (reinterpret_cast<decltype(&(function))>(dlsym(RTLD_NEXT, #function)))
#define DECLARE_REAL(function) extern "C" decltype(::function) function;
#else
#define MOVED(function) banyan_result_t __wrap_##function
#define REAL(function) __real_##function
#define DECLARE_REAL(function)                     \
  extern "C" decltype(function) __real_##function; \
  extern "C" decltype(function) __wrap_##function;
#endif
// NOLINTEND(bugprone-macro-parentheses)
// NOLINTEND(bugprone-reserved-identifier)
