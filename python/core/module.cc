// The extension banyan._core: the C interface for Python. It translates and checks, and decides
// nothing; what users see is the package around it.
// SPDX-License-Identifier: Apache-2.0

#include <pybind11/pybind11.h>

#include "banyan/banyan.h"
#include "python/core/calls.h"
#include "python/core/codecs.h"
#include "python/core/datatypes.h"
#include "python/core/making.h"
#include "python/core/memory.h"
#include "python/core/reducer.h"
#include "python/core/requests.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

using Shared = std::shared_ptr<Communicator>;

void bind_communicator(py::module_& module) {
  py::class_<Communicator, Shared>(module, "Communicator")
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("closed", &Communicator::closed)
      .def_property_readonly("failed_rank", &Communicator::failed_rank)
      .def_property_readonly(
          "address",
          [](const Communicator& self) { return reinterpret_cast<uintptr_t>(self.handle()); })
      .def("abort", &Communicator::abort)
      .def("close", &Communicator::close)
      .def("end", &Communicator::end)
      .def("split", &split)
      .def("run",
           [](const Shared& self, int collective, py::handle send, py::handle recv, int op,
              int root) {
             run_call(
                 self,
                 {.collective = collective, .send = send, .recv = recv, .op = op, .root = root});
           })
      .def("run_with",
           [](const Shared& self, int collective, py::handle send, py::handle recv, int op,
              int root, py::handle lists, py::handle options) {
             run_call(self, {collective, send, recv, op, root, lists, options});
           })
      .def("explain", [](const Shared& self, int collective, py::handle send, py::handle recv,
                         int op, int root, py::handle lists, py::handle options) {
        return explain_call(self, {collective, send, recv, op, root, lists, options});
      });
  module.def("meet_by_launcher", &meet_by_launcher);
  module.def("meet_by_id", &meet_by_id);
  module.def("meet_by_exchange", &meet_by_exchange);
  module.def("unique_id", &unique_id);
}

void bind_requests(py::module_& module) {
  py::class_<Request>(module, "Request")
      .def(py::init([](const Shared& communicator, int collective, py::handle send, py::handle recv,
                       int op, int root, py::handle lists, py::handle options) {
        return std::make_unique<Request>(communicator,
                                         Said{collective, send, recv, op, root, lists, options});
      }))
      .def("start", &Request::start)
      .def("test", &Request::test)
      .def("wait", &Request::wait)
      .def("close", &Request::close);
  py::class_<Group>(module, "Group")
      .def(py::init<>())
      .def("enter", &Group::enter)
      .def("leave", &Group::leave);
  py::class_<Memory>(module, "Memory", py::buffer_protocol())
      .def(py::init<Shared, size_t>())
      .def_buffer(&Memory::view);
  py::class_<PremulSum>(module, "PremulSum")
      .def(py::init<Shared, py::handle>())
      .def_property_readonly("number", &PremulSum::number);
}

void bind_reducer(py::module_& module) {
  py::class_<Reducer>(module, "Reducer")
      .def(py::init<Shared, py::list, py::tuple>())
      .def("ready", &Reducer::ready)
      .def("wait", &Reducer::wait)
      .def("save", &Reducer::save)
      .def("load", &Reducer::load)
      .def("stats", &Reducer::stats)
      .def("close", &Reducer::close);
  module.attr("all_tensors") = BANYAN_ALL_TENSORS;
}

void bind_codecs(py::module_& module) {
  module.def("encode_bound", &encode_bound);
  module.def("encode", &encode);
  module.def("encode_into", &encode_into);
  module.def("decode", &decode);
  // What a call would read or write: address, elements, type.
  module.def("describe", [](py::handle array, bool writable) {
    const Buffer buffer(array, writable ? Access::kWrite : Access::kRead, "array");
    return py::make_tuple(reinterpret_cast<uintptr_t>(buffer.data()), buffer.count(),
                          std::string(name_of(buffer.type())));
  });
  module.def("type_named", [](const std::string& name) {
    const auto type = type_named(name);
    if (!type) throw py::type_error("elements of " + name + "; valid: " + names_of_types());
    return static_cast<int>(*type);
  });
}

}  // namespace
}  // namespace banyan::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C interface of Banyan. Use the package banyan.";
  module.attr("version") = BANYAN_PYTHON_VERSION;
  module.def("library_version", &banyan_version);
  banyan::python::bind_communicator(module);
  banyan::python::bind_requests(module);
  banyan::python::bind_reducer(module);
  banyan::python::bind_codecs(module);
}
