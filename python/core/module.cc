// The extension banyan._core: the C interface for Python. It translates and checks, and decides
// nothing; what users see is the package around it.
// SPDX-License-Identifier: Apache-2.0

#include <pybind11/pybind11.h>

#include "banyan/banyan.h"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C interface of Banyan. Use the package banyan.";
  module.attr("version") = BANYAN_PYTHON_VERSION;
  module.def("library_version", &banyan_version);
}
