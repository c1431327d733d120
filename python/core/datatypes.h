// Element types by the names and codes that Python's arrays have for them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/banyan.h"
#include "python/core/dlpack.h"

namespace banyan::python {

// Names are those of numpy and ml_dtypes: "float32", "bfloat16", "float8_e4m3fn".
std::optional<banyan_datatype_t> type_named(std::string_view name);
// All of them, for texts.
std::string names_of_types();
std::string_view name_of(banyan_datatype_t type);
size_t bytes_of(banyan_datatype_t type);

// As the module `struct` writes it. Nothing: no type of ours, or not in this machine's order of
// bytes.
std::optional<banyan_datatype_t> type_of_format(std::string_view format, size_t item_bytes);
std::optional<banyan_datatype_t> type_of_dlpack(const DlDataType& type);

}  // namespace banyan::python
