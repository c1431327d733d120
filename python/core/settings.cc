// SPDX-License-Identifier: Apache-2.0

#include "python/core/settings.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

const char* text_of(py::handle given, std::string& kept) {
  if (given.is_none()) return nullptr;
  kept = py::cast<std::string>(given);
  return kept.c_str();
}

}  // namespace

CompressionSetting::CompressionSetting(py::handle given) {
  set(given);
}

void CompressionSetting::set(py::handle given) {
  if (given.is_none()) return;
  const auto fields = py::cast<py::tuple>(given);
  value_.fidelity = static_cast<banyan_fidelity_t>(py::cast<int>(fields[0]));
  value_.bound = py::cast<double>(fields[1]);
  value_.codec = text_of(fields[2], codec_);
  value_.min_bytes = py::cast<size_t>(fields[3]);
  value_.seed = py::cast<uint64_t>(fields[4]);
  given_ = true;
}

ConfigSetting::ConfigSetting(const py::tuple& given) : compression_(given[5]) {
  value_.name = text_of(given[0], name_);
  value_.transports = text_of(given[1], transports_);
  value_.timeout_s = py::cast<double>(given[2]);
  value_.init_timeout_s = py::cast<double>(given[3]);
  value_.determinism = static_cast<banyan_determinism_t>(py::cast<int>(given[4]));
  value_.compression = compression_.get();
}

}  // namespace banyan::python
