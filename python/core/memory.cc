// SPDX-License-Identifier: Apache-2.0

#include "python/core/memory.h"

#include <utility>

#include "python/core/buffers.h"
#include "python/core/errors.h"

namespace py = pybind11;

namespace banyan::python {

Memory::Memory(std::shared_ptr<Communicator> communicator, size_t bytes)
    : communicator_(std::move(communicator)), bytes_(bytes) {
  const banyan_comm_t comm = communicator_->handle();
  const Use use(*communicator_);
  communicator_->tidy();
  check(banyan_mem_alloc(comm, &memory_, bytes), comm);
  communicator_->keep_memory();
}

py::buffer_info Memory::view() {
  return {memory_, 1, py::format_descriptor<unsigned char>::format(),
          static_cast<py::ssize_t>(bytes_)};
}

PremulSum::PremulSum(std::shared_ptr<Communicator> communicator, py::handle scalar)
    : communicator_(std::move(communicator)) {
  const Buffer value(scalar, Access::kRead, "scalar");
  if (value.count() != 1)
    throw py::value_error("scalar has " + std::to_string(value.count()) + " elements; right is 1");
  const banyan_comm_t comm = communicator_->handle();
  const Use use(*communicator_);
  communicator_->tidy();
  check(banyan_op_create_premulsum(comm, value.data(), value.type(), &op_), comm);
}

}  // namespace banyan::python
