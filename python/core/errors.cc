// SPDX-License-Identifier: Apache-2.0

#include "python/core/errors.h"

namespace py = pybind11;

namespace banyan::python {

Failed failure_of(banyan_result_t result, banyan_comm_t comm) {
  Failed failed{.result = result, .text = banyan_last_error(nullptr)};
  if (failed.text.empty()) failed.text = banyan_result_string(result);
  if (comm != nullptr && banyan_comm_failed_rank(comm, &failed.failed_rank) != BANYAN_SUCCESS)
    failed.failed_rank = -1;
  return failed;
}

void raise(const Failed& failed) {
  const py::object error =
      py::module_::import("banyan._errors")
          .attr("error_of")(static_cast<int>(failed.result), failed.text, failed.failed_rank);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

}  // namespace banyan::python
