// SPDX-License-Identifier: Apache-2.0

#include "python/core/datatypes.h"

#include <array>

namespace banyan::python {
namespace {

struct Row {
  banyan_datatype_t type;
  std::string_view name;
  size_t bytes;
  uint8_t dlpack_code;
};

// DLPack's codes of integers, unsigned ones, floats and bfloat, and of two kinds of 8-bit floats.
constexpr uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kE4m3fn = 10, kE5m2 = 12;

constexpr std::array kTypes = {
    Row{BANYAN_INT8, "int8", 1, kInt},
    Row{BANYAN_UINT8, "uint8", 1, kUnsigned},
    Row{BANYAN_INT32, "int32", 4, kInt},
    Row{BANYAN_UINT32, "uint32", 4, kUnsigned},
    Row{BANYAN_INT64, "int64", 8, kInt},
    Row{BANYAN_UINT64, "uint64", 8, kUnsigned},
    Row{BANYAN_FLOAT16, "float16", 2, kFloat},
    Row{BANYAN_FLOAT32, "float32", 4, kFloat},
    Row{BANYAN_FLOAT64, "float64", 8, kFloat},
    Row{BANYAN_BFLOAT16, "bfloat16", 2, kBfloat},
    Row{BANYAN_FLOAT8_E4M3, "float8_e4m3fn", 1, kE4m3fn},
    Row{BANYAN_FLOAT8_E5M2, "float8_e5m2", 1, kE5m2},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].type != static_cast<banyan_datatype_t>(i)) return false;
  return true;
}
static_assert(in_order(), "a type is the index of its row");

std::optional<banyan_datatype_t> type_with(uint8_t dlpack_code, size_t bytes) {
  for (const Row& row : kTypes)
    if (row.dlpack_code == dlpack_code && row.bytes == bytes) return row.type;
  return std::nullopt;
}

}  // namespace

std::optional<banyan_datatype_t> type_named(std::string_view name) {
  for (const Row& row : kTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
}

std::string names_of_types() {
  std::string names;
  for (const Row& row : kTypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::string_view name_of(banyan_datatype_t type) {
  return kTypes[type].name;
}
size_t bytes_of(banyan_datatype_t type) {
  return kTypes[type].bytes;
}

std::optional<banyan_datatype_t> type_of_format(std::string_view format, size_t item_bytes) {
  if (!format.empty() && std::string_view("@=<|").find(format[0]) != std::string_view::npos)
    format.remove_prefix(1);  // this machine is little-endian
  if (format.size() != 1) return std::nullopt;
  if (std::string_view("bilq").find(format[0]) != std::string_view::npos)
    return type_with(kInt, item_bytes);
  if (std::string_view("BILQ").find(format[0]) != std::string_view::npos)
    return type_with(kUnsigned, item_bytes);
  if (std::string_view("efd").find(format[0]) != std::string_view::npos)
    return type_with(kFloat, item_bytes);
  return std::nullopt;
}

std::optional<banyan_datatype_t> type_of_dlpack(const DlDataType& type) {
  if (type.lanes != 1 || type.bits % 8 != 0) return std::nullopt;
  return type_with(type.code, type.bits / 8);
}

}  // namespace banyan::python
