// The extension banyan.torch._torch: the backend for Python, and the torch that it was built for.
// SPDX-License-Identifier: Apache-2.0

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "python/banyan/torch/backend.h"

namespace py = pybind11;

namespace banyan::process_group {
namespace {

std::string text_or_none(py::handle given) {
  return given.is_none() ? std::string() : py::cast<std::string>(given);
}

// The tuple of banyan._settings.config_fields.
Settings settings_of(const py::tuple& given) {
  Settings settings;
  settings.name = text_or_none(given[0]);
  settings.transports = text_or_none(given[1]);
  settings.init_timeout_s = py::cast<double>(given[3]);
  settings.determinism = static_cast<banyan_determinism_t>(py::cast<int>(given[4]));
  if (given[5].is_none()) return settings;
  const auto fields = py::cast<py::tuple>(given[5]);
  settings.compress = true;
  settings.fidelity = static_cast<banyan_fidelity_t>(py::cast<int>(fields[0]));
  settings.bound = py::cast<double>(fields[1]);
  settings.codec = text_or_none(fields[2]);
  settings.min_bytes = py::cast<size_t>(fields[3]);
  settings.seed = py::cast<uint64_t>(fields[4]);
  return settings;
}

c10::intrusive_ptr<ProcessGroupBanyan> make(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout,
                                            const py::tuple& fields) {
  const Settings settings = settings_of(fields);
  const py::gil_scoped_release released;
  return c10::make_intrusive<ProcessGroupBanyan>(store, rank, size, timeout, settings);
}

// Nobody ends what waits by this.
const std::atomic<bool> never_ended = false;

}  // namespace
}  // namespace banyan::process_group

PYBIND11_MODULE(_torch, module) {
  using banyan::process_group::DeviceMark;
  using banyan::process_group::ProcessGroupBanyan;
  py::class_<DeviceMark>(module, "DeviceMark",
                         "The place where the current stream of a tensor's GPU is now.")
      .def(py::init([](const at::Tensor& tensor) { return DeviceMark::here(tensor.device()); }),
           py::arg("tensor"))
      .def(
          "wait",
          [](const DeviceMark& mark) { (void)mark.wait(banyan::process_group::never_ended); },
          py::call_guard<py::gil_scoped_release>(),
          "Returns when the stream has got there. No core is busy with that.");
  py::module_::import("torch.distributed");
  py::class_<ProcessGroupBanyan, c10d::Backend, c10::intrusive_ptr<ProcessGroupBanyan>>(
      module, "ProcessGroupBanyan", "The backend of one group; torch.distributed makes it.")
      .def(py::init(&banyan::process_group::make), py::arg("store"), py::arg("rank"),
           py::arg("size"), py::arg("timeout"), py::arg("fields"))
      .def_property_readonly("options", &ProcessGroupBanyan::getBackendOptions)
      .def("_set_default_timeout", &ProcessGroupBanyan::setTimeout, py::arg("timeout"),
           "The timeout of calls that have none of their own; by this name gloo has it.")
      .def("sequence_number", &ProcessGroupBanyan::getSequenceNumberForGroup,
           "How many collectives this rank has issued.");
}
