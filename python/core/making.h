// How communicators are made for Python. Ctrl-C ends a meeting, too.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "python/core/communicator.h"

namespace banyan::python {

// The tuples are those of ConfigSetting.
std::shared_ptr<Communicator> meet_by_launcher(const pybind11::tuple& config);
std::shared_ptr<Communicator> meet_by_id(int rank, int size, const std::string& id,
                                         const pybind11::tuple& config);
// allgather(bytes) returns a sequence of what every rank gave, in the order of ranks.
std::shared_ptr<Communicator> meet_by_exchange(int rank, int size,
                                               const pybind11::object& allgather,
                                               const pybind11::tuple& config);
// Null for a rank without a colour.
std::shared_ptr<Communicator> split(Communicator& parent, int color, int key,
                                    const pybind11::tuple& config);
pybind11::bytes unique_id();

}  // namespace banyan::python
