// Codecs by themselves, for Python. They need no GIL while they work.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

namespace banyan::python {

size_t encode_bound(const std::string& codec, size_t count, int type);
pybind11::bytes encode(const std::string& codec, pybind11::handle array, uint64_t seed,
                       uint64_t step, pybind11::handle residual);
// (length of the message, elements that are not finite, elements that are carried)
pybind11::tuple encode_into(const std::string& codec, pybind11::handle array,
                            pybind11::handle message, uint64_t seed, uint64_t step,
                            pybind11::handle residual);
void decode(pybind11::handle message, pybind11::handle out, bool add);

}  // namespace banyan::python
