// Waiting for operations, of one communicator or of several at once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "banyan/status.h"
#include "src/communicator/membership.h"

namespace banyan {

// Drives the communicators until all operations are done, a deadline passes, or one fails.
Status drive(std::span<Driver> drivers, std::span<Operation* const> operations);

}  // namespace banyan
