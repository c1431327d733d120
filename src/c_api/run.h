// Issues checked calls: at once, or as the library's own.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <new>
#include <span>
#include <string_view>

#include "banyan/status.h"
#include "src/c_api/handles.h"

namespace banyan {

// Usable for a call: not finalized; its failure otherwise.
Status check_usable(const OpenCommunicator& communicator);
// The same for what moves nothing: a failure that the caller does not know of yet is for the call
// that meets it.
Status check_usable_here(const OpenCommunicator& communicator);

// The communicator, which is pinned, is at rest and usable, and no group is open.
bool takes_known(const OpenCommunicator& communicator) noexcept;

// Finds a small call that is known, on a communicator that is pinned, at rest and usable. Null:
// run_call().
QuickCall* find_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept;

// Remembers a checked call that has ended well, so that the next such one need not be checked and
// planned again. The driver is the communicator's.
void remember(Driver& driver, OpenCommunicator& communicator, const PlainCall& plain,
              const Call& call);

// Fails it, and takes the memory of running calls back. A membership has no driver then.
Status run_out_of_memory(Driver& driver);
Status run_out_of_memory(Membership& membership);

// Runs a body that others may take part in. Memory that is missing here fails the communicators,
// each by its Driver or its Membership: the others may have begun.
template <typename Communicator, typename Body>
Status with_memory(std::span<Communicator> communicators, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    Status status;
    for (Communicator& each : communicators) status = run_out_of_memory(each);
    return status;
  }
}
template <typename Communicator, typename Body>
Status with_memory(Communicator& communicator, const Body& body) {
  return with_memory(std::span(&communicator, 1), body);
}

// drive(), with memory.
Status drive_through(std::span<Driver> drivers, std::span<Operation* const> operations);

// Runs to the end. Not for groups.
Status run_now(OpenCommunicator& communicator, const Call& call);

// A blocking function of banyan.h checks, then runs, or joins the open group. `plain`, where it is
// there, says the same as `given`; then the call is remembered.
Status run_call(banyan_comm_t handle, const banyan_call_t& given, const PlainCall* plain = nullptr);
Status start_request(OpenRequest& request);
// Its start has failed: wait and test say the same.
void refuse_request(OpenRequest& request, const Status& why);
// After its operation is done or the communicator has failed.
void settle_request(Driver& driver, OpenRequest& request);
// Drives one that is running to its end and settles it. The result is that of driving; its own may
// be another, which the failure of the communicator decides.
Status complete_request(OpenRequest& request);

}  // namespace banyan
