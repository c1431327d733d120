// The rows of the list of transports, each made by the file that implements it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "transports/transport.h"

namespace banyan {

TransportKind shm_kind();
TransportKind ucx_kind();
TransportKind loopback_kind();

}  // namespace banyan
