// SPDX-License-Identifier: Apache-2.0

#include "python/core/codecs.h"

#include "banyan/banyan.h"
#include "python/core/buffers.h"
#include "python/core/errors.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

// Writes the message, and says in `how` and `bytes` what became of it.
void write(banyan_encode_t& how, const Buffer& source, py::handle residual, void* message,
           size_t& bytes) {
  Buffer kept;
  if (!residual.is_none()) {
    kept = Buffer(residual, Access::kWrite, "residual");
    if (kept.type() != BANYAN_FLOAT32 || kept.count() != source.count())
      throw py::value_error("residual is to have float32, and as many elements as array: " +
                            std::to_string(source.count()));
    how.residual = static_cast<float*>(kept.data());
  }
  banyan_result_t result = BANYAN_SUCCESS;
  {
    const WithoutGil released;
    result = banyan_encode(&how, source.data(), source.count(), source.type(), message, &bytes);
  }
  check(result);
}

banyan_encode_t how_by(const std::string& codec, uint64_t seed, uint64_t step) {
  banyan_encode_t how = BANYAN_ENCODE_INIT;
  how.codec = codec.c_str();
  how.seed = seed;
  how.step = step;
  return how;
}

}  // namespace

size_t encode_bound(const std::string& codec, size_t count, int type) {
  size_t bytes = 0;
  check(banyan_encode_bound(codec.c_str(), count, static_cast<banyan_datatype_t>(type), &bytes));
  return bytes;
}

py::bytes encode(const std::string& codec, py::handle array, uint64_t seed, uint64_t step,
                 py::handle residual) {
  const Buffer source(array, Access::kRead, "array");
  size_t bytes = encode_bound(codec, source.count(), source.type());
  banyan_encode_t how = how_by(codec, seed, step);
  PyObject* message = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (message == nullptr) throw py::error_already_set();
  auto owned = py::reinterpret_steal<py::bytes>(message);
  write(how, source, residual, PyBytes_AS_STRING(message), bytes);
  owned.release();
  if (_PyBytes_Resize(&message, static_cast<Py_ssize_t>(bytes)) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(message);
}

py::tuple encode_into(const std::string& codec, py::handle array, py::handle message, uint64_t seed,
                      uint64_t step, py::handle residual) {
  const Buffer source(array, Access::kRead, "array");
  const Buffer room(message, Access::kWrite, "message");
  size_t bytes = room.bytes();
  banyan_encode_t how = how_by(codec, seed, step);
  write(how, source, residual, room.data(), bytes);
  return py::make_tuple(bytes, how.nonfinite, how.kept);
}

void decode(py::handle message, py::handle out, bool add) {
  const Buffer source(message, Access::kRead, "message");
  const Buffer target(out, Access::kWrite, "out");
  const auto function = add ? banyan_decode_add : banyan_decode;
  banyan_result_t result = BANYAN_SUCCESS;
  {
    const WithoutGil released;
    result = function(source.data(), source.bytes(), target.data(), target.count(), target.type());
  }
  check(result);
}

}  // namespace banyan::python
