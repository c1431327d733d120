// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/tensors.h"

namespace banyan::process_group {

Elements elements_of(at::ScalarType type) {
  using at::ScalarType;
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte: return {BANYAN_UINT8, 1};
    case ScalarType::Char: return {BANYAN_INT8, 1};
    case ScalarType::Int: return {BANYAN_INT32, 1};
    case ScalarType::UInt32: return {BANYAN_UINT32, 1};
    case ScalarType::Long: return {BANYAN_INT64, 1};
    case ScalarType::UInt64: return {BANYAN_UINT64, 1};
    case ScalarType::Half: return {BANYAN_FLOAT16, 1};
    case ScalarType::BFloat16: return {BANYAN_BFLOAT16, 1};
    case ScalarType::Float: return {BANYAN_FLOAT32, 1};
    case ScalarType::Double: return {BANYAN_FLOAT64, 1};
    case ScalarType::Float8_e4m3fn: return {BANYAN_FLOAT8_E4M3, 1};
    case ScalarType::Float8_e5m2: return {BANYAN_FLOAT8_E5M2, 1};
    case ScalarType::ComplexHalf: return {BANYAN_FLOAT16, 2};
    case ScalarType::ComplexFloat: return {BANYAN_FLOAT32, 2};
    case ScalarType::ComplexDouble: return {BANYAN_FLOAT64, 2};
    default: return {BANYAN_UINT8, c10::elementSize(type)};
  }
}

bool is_widened(at::ScalarType type) {
  return type == at::ScalarType::Short || type == at::ScalarType::UInt16;
}

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor operand(const at::Tensor& tensor) {
  return is_widened(tensor.scalar_type()) ? dense(tensor.to(at::kInt)) : dense(tensor);
}

at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1) return dense(tensors[0]).view({-1});
  const at::Tensor vector = room_for(tensors);
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    vector.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return vector;
}

void part(const at::Tensor& vector, const std::vector<at::Tensor>& tensors) {
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor piece = vector.narrow(0, at, tensor.numel());
    if (tensor.numel() > 0) tensor.copy_(piece.view(tensor.sizes()));
    at += tensor.numel();
  }
}

at::Tensor room_for(const std::vector<at::Tensor>& tensors) {
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return at::empty({count}, tensors[0].options().memory_format(std::nullopt));
}

banyan_call_t call_of(banyan_collective_t collective, const void* send, void* recv, int64_t count,
                      at::ScalarType type) {
  const Elements elements = elements_of(type);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = static_cast<size_t>(count) * elements.per;
  call.datatype = elements.datatype;
  return call;
}

void check_tensors(const char* what, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), "banyan ", what, ": there is no tensor; valid: at least one");
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.layout() == at::kStrided, "banyan ", what, ": a tensor is ", tensor.layout(),
                "; valid: strided (dense) tensors");
    TORCH_CHECK(tensor.is_cpu() || tensor.is_cuda(), "banyan ", what, ": a tensor is on ",
                tensor.device(), "; valid: cpu, cuda");
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "banyan ", what,
                ": tensors are of ", tensors[0].scalar_type(), " and ", tensor.scalar_type(),
                "; valid: one type");
  }
}

}  // namespace banyan::process_group
