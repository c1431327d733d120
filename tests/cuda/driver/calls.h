// How the stand-in's functions begin.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/cuda/driver/machine.h"

// Counts the call, and returns what a test has asked for.
#define ENTER(name) \
  if (const int refused = banyan::standin::Machine::the().enter(#name); refused != 0) return refused

// The same for what needs a context.
#define ENTER_WITH_CONTEXT(name) \
  ENTER(name);                   \
  if (banyan::standin::Machine::current().empty()) return banyan::standin::kInvalidContext
