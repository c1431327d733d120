// An array of the caller's, as the C interface takes it: where it lies, how many elements, of which
// type. Nothing is copied, and the array stays where it is until its Buffer ends.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

#include "banyan/banyan.h"
#include "python/core/dlpack.h"

namespace banyan::python {

enum class Access { kRead, kWrite };

// It is made and ended by a thread that has the GIL.
class Buffer {
 public:
  Buffer() = default;  // of a rank that gives none: NULL
  // Takes what has the buffer protocol, then __array_interface__, then DLPack; types of DLPack 1.3
  // first, which need no call of Python. TypeError and ValueError name the argument, what it is and
  // what would be right.
  Buffer(pybind11::handle array, Access access, const char* argument);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  bool given() const { return given_; }
  void* data() const { return data_; }
  size_t count() const { return count_; }
  banyan_datatype_t type() const { return type_; }
  size_t bytes() const;

 private:
  void take_view(pybind11::handle array, Access access, const char* argument);
  bool take_interface(pybind11::handle array, Access access, const char* argument);
  bool take_exchange(pybind11::handle array, Access access, const char* argument);
  bool take_dlpack(pybind11::handle array, Access access, const char* argument);
  void take_tensor(const DlTensor& tensor, bool readonly, Access access, const char* argument);
  void end() noexcept;

  void* data_ = nullptr;
  size_t count_ = 0;
  banyan_datatype_t type_ = BANYAN_UINT8;
  bool given_ = false;
  Py_buffer view_{};         // with an obj where it is one
  pybind11::object holder_;  // otherwise what keeps the memory, or
  DlManagedVersioned* managed_ = nullptr;
};

}  // namespace banyan::python
