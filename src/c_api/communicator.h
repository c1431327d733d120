// How a communicator is made, whichever call asks for it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/bootstrap/exchange.h"
#include "src/c_api/handles.h"

namespace banyan {

// The caller's configuration, null for the defaults, and the environment.
Result<Settings> settings_of(const banyan_config_t* config, int rank);

// Connects the ranks of the exchange, and gives the handle out.
Status open_communicator(Exchange& exchange, Settings settings, TimePoint deadline,
                         banyan_comm_t* comm);

// The same ranks once more, with the same settings, for the library itself. All ranks of the parent
// take part.
Result<std::unique_ptr<Membership>> duplicate(OpenCommunicator& parent);

// A call of the library itself on a communicator of the caller's. `timeout_s` 0: as its calls have.
Status run_internal(OpenCommunicator& communicator, Collective collective, const void* send,
                    void* recv, size_t bytes, double timeout_s = 0);

}  // namespace banyan
