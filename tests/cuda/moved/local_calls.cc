// SPDX-License-Identifier: Apache-2.0

#include <cstddef>

#include "tests/cuda/moved/calls.h"
#include "tests/cuda/moved/moved_buffers.h"

namespace banyan::test {

DECLARE_REAL(banyan_decode)
DECLARE_REAL(banyan_decode_add)
DECLARE_REAL(banyan_encode)
DECLARE_REAL(banyan_op_create_premulsum)

namespace {

constexpr int kGpu = 0;  // any of them
HostBuffer bytes_of(const void* memory, size_t bytes) {
  return elements(memory, bytes, BANYAN_UINT8);
}

template <typename Real>
banyan_result_t decode_moved(const void* message, size_t bytes, void* target, size_t count,
                             banyan_datatype_t datatype, const Real& real) {
  MovedBuffers moved(kGpu, bytes_of(message, bytes), elements(target, count, datatype));
  moved.bring_in();
  const banyan_result_t result = real(moved.send(), bytes, moved.recv(), count, datatype);
  moved.take_out();
  return result;
}

}  // namespace

extern "C" {

MOVED(banyan_encode)
(banyan_encode_t* how, const void* source, size_t count, banyan_datatype_t datatype, void* message,
 size_t* bytes) {
  const bool known = how != nullptr && how->size == sizeof(banyan_encode_t) && bytes != nullptr;
  if (!known) return REAL(banyan_encode)(how, source, count, datatype, message, bytes);
  const bool is_float = datatype >= BANYAN_FLOAT16 && datatype <= BANYAN_BFLOAT16;
  MovedBuffers values(kGpu, elements(source, is_float ? count : 0, datatype),
                      bytes_of(message, *bytes));
  float* const residual = how->residual;
  MovedBuffers left(kGpu, {}, elements(residual, is_float ? count : 0, BANYAN_FLOAT32));
  values.bring_in();
  left.bring_in();
  how->residual = static_cast<float*>(left.recv());
  const banyan_result_t result =
      REAL(banyan_encode)(how, values.send(), count, datatype, values.recv(), bytes);
  how->residual = residual;
  left.take_out();
  values.take_out();
  return result;
}

MOVED(banyan_decode)
(const void* message, size_t bytes, void* target, size_t count, banyan_datatype_t datatype) {
  return decode_moved(message, bytes, target, count, datatype, REAL(banyan_decode));
}

MOVED(banyan_decode_add)
(const void* message, size_t bytes, void* target, size_t count, banyan_datatype_t datatype) {
  return decode_moved(message, bytes, target, count, datatype, REAL(banyan_decode_add));
}

MOVED(banyan_op_create_premulsum)
(banyan_comm_t comm, const void* scalar, banyan_datatype_t datatype, banyan_op_t* op) {
  MovedBuffers moved(kGpu, elements(scalar, 1, datatype), {});
  moved.bring_in();
  const banyan_result_t result = REAL(banyan_op_create_premulsum)(comm, moved.send(), datatype, op);
  moved.take_out();
  return result;
}

}  // extern "C"
}  // namespace banyan::test
