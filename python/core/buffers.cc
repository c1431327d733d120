// SPDX-License-Identifier: Apache-2.0

#include "python/core/buffers.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "python/core/datatypes.h"
#include "python/core/dlpack.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

std::string kind_of(py::handle array) {
  return Py_TYPE(array.ptr())->tp_name;
}

[[noreturn]] void refuse_type(const char* argument, const std::string& type) {
  throw py::type_error(std::string(argument) + " has elements of " + type +
                       "; valid: " + names_of_types());
}

[[noreturn]] void refuse_strides(const char* argument) {
  throw py::value_error(
      std::string(argument) +
      " is not contiguous in C order; numpy.ascontiguousarray makes a copy that is");
}

[[noreturn]] void refuse_readonly(const char* argument) {
  throw py::value_error(std::string(argument) + " is read-only, and the call writes to it");
}

// Whether elements of C order have these strides; an array without elements has any.
bool contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                int64_t step) {
  for (const int64_t length : shape)
    if (length == 0) return true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

size_t product(const std::vector<int64_t>& shape, const char* argument) {
  size_t count = 1;
  for (const int64_t length : shape)
    if (length < 0 || __builtin_mul_overflow(count, static_cast<size_t>(length), &count))
      throw py::value_error(std::string(argument) + " has a shape that no array can have");
  return count;
}

std::vector<int64_t> numbers_of(py::handle given) {
  std::vector<int64_t> numbers;
  for (const py::handle each : py::tuple(py::reinterpret_borrow<py::object>(given)))
    numbers.push_back(py::cast<int64_t>(each));
  return numbers;
}

// Types that numpy has no letter for are "<V2", or "<f1", and the array knows their name.
banyan_datatype_t type_of_interface(py::handle array, const std::string& letters,
                                    const char* argument) {
  if (letters.size() == 3 && letters[0] != '>') {
    const auto bytes = static_cast<size_t>(letters[2] - '0');
    const char kind = letters[1];
    const std::string_view format = kind == 'i' ? "q" : kind == 'u' ? "Q" : kind == 'f' ? "d" : "";
    if (const auto type = type_of_format(format, bytes); type) return *type;
    if (py::hasattr(array, "dtype") && py::hasattr(array.attr("dtype"), "name")) {
      const std::string name = py::str(array.attr("dtype").attr("name"));
      if (const auto type = type_named(name); type && bytes_of(*type) == bytes) return *type;
      refuse_type(argument, name);
    }
  }
  refuse_type(argument, letters);
}

// Memory that the library reads: that of the host, and that of GPUs by CUDA.
bool reachable(int64_t device) {
  return device == static_cast<int32_t>(DlDevice::kCpu) ||
         device == static_cast<int32_t>(DlDevice::kCuda) ||
         device == static_cast<int32_t>(DlDevice::kCudaHost) ||
         device == static_cast<int32_t>(DlDevice::kCudaManaged);
}

void refuse_device(const char* argument, int64_t kind) {
  if (!reachable(kind))
    throw py::type_error(
        std::string(argument) + " is on a device of DLPack's kind " + std::to_string(kind) +
        "; valid: 1 (CPU), 2 (CUDA), 3 (CUDA's pinned memory), 13 (CUDA's managed memory)");
}

// The capsule is left as it is: it frees what it has when it ends itself. -1 says that a stream has
// nothing to wait for, since the caller has seen to that.
py::object export_dlpack(py::handle array, int64_t device) {
  py::dict options;
  if (device != static_cast<int32_t>(DlDevice::kCpu)) options["stream"] = -1;
  py::dict modern = options.attr("copy")();
  modern["max_version"] = py::make_tuple(kDlMajor, 0);
  const py::object method = array.attr("__dlpack__");
  try {
    return method(**modern);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // it is of before DLPack 1.0, and knows no version
  }
  return method(**options);
}

struct Exported {
  const DlTensor* tensor;
  bool readonly;
};

Exported tensor_in(const py::object& capsule, const char* argument) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed =
        static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != kDlMajor)
      throw py::value_error(std::string(argument) + " exports DLPack " +
                            std::to_string(managed->major) + "; known are 0 and 1");
    return {&managed->tensor, (managed->flags & kDlReadOnly) != 0};
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    return {&static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor,
            false};
  throw py::type_error(std::string(argument) +
                       ".__dlpack__() returns no capsule of DLPack, or a used one");
}

}  // namespace

Buffer::Buffer(py::handle array, Access access, const char* argument) {
  try {
    if (PyObject_CheckBuffer(array.ptr()) != 0) take_view(array, access, argument);
    if (!given_ && !take_exchange(array, access, argument) &&
        !take_interface(array, access, argument) && !take_dlpack(array, access, argument))
      throw py::type_error(std::string(argument) + " is a " + kind_of(array) +
                           "; valid: an array of numpy, or anything with the buffer protocol, "
                           "__array_interface__ or DLPack");
  } catch (...) {
    end();
    throw;
  }
}

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  end();
  data_ = other.data_;
  count_ = other.count_;
  type_ = other.type_;
  given_ = std::exchange(other.given_, false);
  view_ = std::exchange(other.view_, Py_buffer{});
  holder_ = std::move(other.holder_);
  managed_ = std::exchange(other.managed_, nullptr);
  return *this;
}

Buffer::~Buffer() {
  end();
}

void Buffer::end() noexcept {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  holder_ = py::object();
  DlManagedVersioned* const managed = std::exchange(managed_, nullptr);
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

size_t Buffer::bytes() const {
  return count_ * bytes_of(type_);
}

// Nothing is taken where the array has a type for which the protocol has no letter: numpy refuses
// then.
void Buffer::take_view(py::handle array, Access access, const char* argument) {
  if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    view_.obj = nullptr;
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) throw py::error_already_set();
    PyErr_Clear();
    return;
  }
  const std::string_view format = view_.format == nullptr ? "B" : view_.format;
  const auto type = type_of_format(format, static_cast<size_t>(view_.itemsize));
  if (!type) {
    // Names of types that are not in the protocol are in the array, as for bytes without a meaning.
    PyBuffer_Release(&view_);
    if (take_interface(array, access, argument)) return;
    refuse_type(argument, "format '" + std::string(format) + "'");
  }
  if (PyBuffer_IsContiguous(&view_, 'C') == 0) refuse_strides(argument);
  if (access == Access::kWrite && view_.readonly != 0) refuse_readonly(argument);
  data_ = view_.buf;
  count_ = static_cast<size_t>(view_.len / view_.itemsize);
  type_ = *type;
  given_ = true;
}

bool Buffer::take_interface(py::handle array, Access access, const char* argument) {
  const py::object found = py::getattr(array, "__array_interface__", py::none());
  if (!py::isinstance<py::dict>(found)) return false;
  const auto described = py::reinterpret_borrow<py::dict>(found);
  for (const char* key : {"shape", "typestr", "data"})
    if (!described.contains(key))
      throw py::type_error(std::string(argument) + ".__array_interface__ has no '" + key + "'");
  if (!py::isinstance<py::tuple>(described["data"]) || py::len(described["data"]) != 2)
    throw py::type_error(std::string(argument) +
                         ".__array_interface__['data'] is no pair of address and flag");
  const auto place = py::reinterpret_borrow<py::tuple>(described["data"]);
  type_ = type_of_interface(array, py::str(described["typestr"]), argument);
  const std::vector<int64_t> shape = numbers_of(described["shape"]);
  count_ = product(shape, argument);
  if (described.contains("strides") && !described["strides"].is_none()) {
    const std::vector<int64_t> strides = numbers_of(described["strides"]);
    if (strides.size() != shape.size() ||
        !contiguous(shape, strides, static_cast<int64_t>(bytes_of(type_))))
      refuse_strides(argument);
  }
  if (access == Access::kWrite && py::cast<bool>(place[1])) refuse_readonly(argument);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the interface has a number
  data_ = reinterpret_cast<void*>(py::cast<uintptr_t>(place[0]));
  holder_ = py::make_tuple(found, py::reinterpret_borrow<py::object>(array));
  given_ = true;
  return true;
}

bool Buffer::take_exchange(py::handle array, Access access, const char* argument) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject* const capsule = _PyType_Lookup(Py_TYPE(array.ptr()), name);  // borrowed, no exception
  if (capsule == nullptr || PyCapsule_IsValid(capsule, "dlpack_exchange_api") == 0) return false;
  const auto* exchange =
      static_cast<DlExchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (exchange->major != kDlMajor || exchange->export_managed == nullptr) return false;
  // Such exports of torch do not ask what __dlpack__ refuses.
  if (py::cast<bool>(py::getattr(array, "requires_grad", py::bool_(false))))
    throw py::value_error(std::string(argument) +
                          " requires a gradient, which no call of ours follows; detach() gives the "
                          "same memory without");
  if (exchange->export_managed(array.ptr(), &managed_) != 0) throw py::error_already_set();
  const bool readonly = (managed_->flags & kDlReadOnly) != 0;
  take_tensor(managed_->tensor, readonly, access, argument);
  return true;
}

bool Buffer::take_dlpack(py::handle array, Access access, const char* argument) {
  if (!py::hasattr(array, "__dlpack__") || !py::hasattr(array, "__dlpack_device__")) return false;
  const std::vector<int64_t> device = numbers_of(array.attr("__dlpack_device__")());
  if (device.size() != 2)
    throw py::type_error(std::string(argument) +
                         ".__dlpack_device__() is no pair of kind and number");
  refuse_device(argument, device[0]);
  holder_ = export_dlpack(array, device[0]);
  const auto [tensor, readonly] = tensor_in(holder_, argument);
  take_tensor(*tensor, readonly, access, argument);
  return true;
}

void Buffer::take_tensor(const DlTensor& tensor, bool readonly, Access access,
                         const char* argument) {
  refuse_device(argument, tensor.device_type);
  const auto type = type_of_dlpack(tensor.type);
  if (!type)
    refuse_type(argument, "DLPack's code " + std::to_string(tensor.type.code) + " with " +
                              std::to_string(tensor.type.bits) + " bits");
  if (tensor.dimensions < 0 || (tensor.dimensions > 0 && tensor.shape == nullptr))
    throw py::value_error(std::string(argument) + " exports a tensor without a shape");
  const std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.dimensions);
  count_ = product(shape, argument);
  if (tensor.strides != nullptr &&
      !contiguous(shape, {tensor.strides, tensor.strides + tensor.dimensions}, 1))
    refuse_strides(argument);
  if (access == Access::kWrite && readonly) refuse_readonly(argument);
  data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
  type_ = *type;
  given_ = true;
}

}  // namespace banyan::python
