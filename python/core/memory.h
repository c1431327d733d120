// Memory that the ranks of a host read and write in place, and operations of a communicator.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "python/core/communicator.h"

namespace banyan::python {

// Arrays lie in it by the buffer protocol, and keep it. It keeps the communicator from being freed.
class Memory {
 public:
  Memory(std::shared_ptr<Communicator> communicator, size_t bytes);
  ~Memory() { communicator_->let_go(memory_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  pybind11::buffer_info view();

 private:
  std::shared_ptr<Communicator> communicator_;
  void* memory_ = nullptr;
  size_t bytes_;
};

// Sums scalar * x.
class PremulSum {
 public:
  // scalar is an array of one element; the operation is for its type.
  PremulSum(std::shared_ptr<Communicator> communicator, pybind11::handle scalar);
  ~PremulSum() { communicator_->let_go(op_); }
  PremulSum(const PremulSum&) = delete;
  PremulSum& operator=(const PremulSum&) = delete;

  banyan_op_t number() const { return op_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  banyan_op_t op_ = 0;
};

}  // namespace banyan::python
