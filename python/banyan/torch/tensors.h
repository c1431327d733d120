// Tensors as the C interface sees them: element types, dense copies, lists as one block.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/ATen.h>
#include <banyan/banyan.h>

#include <vector>

namespace banyan::process_group {

// One element of a tensor is `per` elements of `datatype`. Types that the C interface has no sums
// of travel as bytes.
struct Elements {
  banyan_datatype_t datatype;
  size_t per;
};
Elements elements_of(at::ScalarType type);

// A reduction may be done in a wider type: 16-bit integers in 32 bits, whose low bits are the same.
bool is_widened(at::ScalarType type);

// The tensor itself where it is dense in C order, else a copy.
at::Tensor dense(const at::Tensor& tensor);
// As dense, in the type of the reduction.
at::Tensor operand(const at::Tensor& tensor);

// The tensors in a row, as one vector of their type. No copy of a single dense one.
at::Tensor joined(const std::vector<at::Tensor>& tensors);
// Copies consecutive pieces of the vector to the tensors.
void part(const at::Tensor& vector, const std::vector<at::Tensor>& tensors);
// A vector for all that the tensors hold.
at::Tensor room_for(const std::vector<at::Tensor>& tensors);

// A call on `count` elements of the type.
banyan_call_t call_of(banyan_collective_t collective, const void* send, void* recv, int64_t count,
                      at::ScalarType type);
inline banyan_call_t call_of(banyan_collective_t collective, const at::Tensor& send,
                             const at::Tensor& recv, int64_t count) {
  return call_of(collective, send.data_ptr(), recv.data_ptr(), count, recv.scalar_type());
}

// Whether some memory belongs to two of the dense tensors.
bool overlap(const std::vector<at::Tensor>& tensors);

// Raises unless tensors are strided, on the host or a GPU, and of one type. Programs know these
// errors, and those of the calls, by the words that torch's own backends have for them.
void check_tensors(const char* what, const std::vector<at::Tensor>& tensors);
// Raises unless all have the sizes of the first.
void check_sizes(const char* what, const std::vector<at::Tensor>& tensors);

}  // namespace banyan::process_group
